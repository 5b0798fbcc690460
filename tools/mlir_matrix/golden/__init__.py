"""Expected outputs and tolerances: audit, calibrate, explain, update."""
