"""Plans: the chosen tests and the graph of actions that they need. Pure: no clock, no network, no subprocess."""
