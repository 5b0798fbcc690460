"""The reports of a bisection, a file for each form."""
