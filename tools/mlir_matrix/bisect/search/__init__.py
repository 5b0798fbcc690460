"""Search a range of releases or commits, guided by earlier runs."""
