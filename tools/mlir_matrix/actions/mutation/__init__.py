"""Mutations of IR and of outputs."""
