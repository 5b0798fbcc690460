"""The worker: it runs each action in a process and a root of its own."""
