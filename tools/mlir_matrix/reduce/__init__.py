"""Reduce a failing test to the smallest program that fails in the same way."""
