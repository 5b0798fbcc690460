"""Plan the chosen tests as a graph of actions. Pure: no clock, no network, no subprocess."""
