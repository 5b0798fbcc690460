"""Executors: run the actions of a plan, each once, and keep their results."""
