"""The isolation of actions: namespaces, mounts, system calls and control groups."""
