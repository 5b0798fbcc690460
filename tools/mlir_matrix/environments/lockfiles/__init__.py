"""Lock files as data."""
