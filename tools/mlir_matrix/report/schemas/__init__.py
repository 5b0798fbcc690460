"""The types and JSON Schemas of the documents that matrix writes."""
