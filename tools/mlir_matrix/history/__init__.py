"""Results of many runs: recorded by each run, kept in a database, and asked."""
