"""Plan the chosen tests as a graph of actions. Planning is pure: it uses no clock, no network and no subprocess."""
