"""Print the IR of tests between their steps, and run one step on a file."""
