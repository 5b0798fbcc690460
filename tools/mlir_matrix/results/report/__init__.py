"""Reports of a run, one module for each form."""
