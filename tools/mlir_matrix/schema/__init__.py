"""JSON Schemas of all file formats, and new catalogs."""
