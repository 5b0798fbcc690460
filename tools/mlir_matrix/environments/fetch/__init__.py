"""Resolve the files of packages and download them."""
