"""The tools: one module for each kind of action."""
