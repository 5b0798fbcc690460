"""The verbs of ``matrix toolchain``."""
