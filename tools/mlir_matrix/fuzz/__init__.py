"""Find miscompiles by programs that are composed at random: ``matrix fuzz``."""
