"""Check what the files of a catalog say against one another."""
