"""The verbs of ``matrix golden``."""
