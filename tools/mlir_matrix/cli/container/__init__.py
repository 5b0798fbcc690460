"""The verbs of ``matrix container``."""
