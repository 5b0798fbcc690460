"""The command line. Each verb is a module of its package, imported only when it is called."""
