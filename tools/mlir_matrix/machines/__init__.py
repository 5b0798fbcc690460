"""Build machines: what they have, which tests they run, and in which order."""
