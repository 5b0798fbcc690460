"""Results of finished actions, and the reports of a run."""
