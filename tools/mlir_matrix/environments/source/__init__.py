"""Build packages from source."""
