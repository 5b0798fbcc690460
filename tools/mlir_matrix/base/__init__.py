"""Names, digests, files, texts and errors: what every other package may use."""
