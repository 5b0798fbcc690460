"""Installed packages: their prefixes, programs and integrity."""
