"""Select toolchains by name and examine the machine."""
