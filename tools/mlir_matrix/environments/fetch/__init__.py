"""Download packages and resolve what is to be downloaded."""
