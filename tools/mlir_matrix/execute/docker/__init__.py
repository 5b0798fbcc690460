"""Run workers in containers."""
