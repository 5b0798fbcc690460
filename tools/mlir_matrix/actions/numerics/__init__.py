"""Arithmetic on results: number formats, error bounds, error statistics."""
