"""What people and other programs are shown: tables, live progress, census, JUnit, the folder of a failed test."""
