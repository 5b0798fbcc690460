"""Bounds of tests, numerics attributes and where they come from."""
