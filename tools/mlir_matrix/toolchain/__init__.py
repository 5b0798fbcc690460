"""Compilers and frameworks: lock, install, verify and upgrade."""
