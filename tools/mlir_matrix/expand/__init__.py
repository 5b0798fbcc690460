"""Expand suites to tests, each with the reason why it exists."""
