"""The worker: it runs each action in a separate process with a separate root file system."""
