"""Find the change that made a test behave differently."""
