"""Propose expected failures from the current ones, and find conflicts between IR tests."""
