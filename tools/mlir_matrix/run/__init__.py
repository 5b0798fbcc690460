"""Plan and run tests."""
