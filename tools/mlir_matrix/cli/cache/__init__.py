"""The verbs of ``matrix cache``."""
