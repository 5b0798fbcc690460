"""Everything that decides one test, and comparison of its oracles."""
