"""The types and schemas of the documents that matrix writes."""
