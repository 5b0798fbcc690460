"""Environments: the locked packages and the interpreter that an action runs with."""
