"""Count and measure what tests cost, and compare the costs of two sides."""
