"""Expressions of catalogs, and formulas for expected values."""
