"""What a person names of a toolchain, and what this machine has."""
