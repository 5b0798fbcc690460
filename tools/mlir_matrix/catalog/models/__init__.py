"""Pydantic models of the files of a catalog."""
