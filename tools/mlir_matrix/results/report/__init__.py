"""The reports of a run, a file for each form."""
