"""Read the declarative files, with their models and messages."""
