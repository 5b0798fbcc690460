"""The verbs of ``matrix report``."""
