"""Record the results of runs in a database, and answer questions about them."""
