"""Executors: run a plan's actions, never one twice, and turn what happened into results."""
