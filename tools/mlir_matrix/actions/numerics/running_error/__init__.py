"""Bounds of the rounding errors of references, carried along as they compute."""
