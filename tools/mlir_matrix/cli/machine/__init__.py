"""The verbs of ``matrix machine``."""
