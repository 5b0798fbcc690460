"""Executing a plan by Bazel."""
