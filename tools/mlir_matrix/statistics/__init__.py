"""Decide by numbers that vary: which of two programs is faster, how often something happens, and whether a series rises."""
