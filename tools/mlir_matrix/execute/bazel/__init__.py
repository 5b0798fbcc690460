"""The Bazel executor."""
