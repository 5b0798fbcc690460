"""The verbs of ``matrix history``."""
