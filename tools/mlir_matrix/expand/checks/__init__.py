"""Check the files of a catalog against each other."""
