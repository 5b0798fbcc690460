"""The Docker executor: workers in containers."""
