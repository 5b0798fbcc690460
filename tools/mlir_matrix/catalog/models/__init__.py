"""Define the files of a catalog as Pydantic models."""
