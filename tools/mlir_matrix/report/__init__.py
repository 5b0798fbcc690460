"""Show plans and results: tables, live progress, JUnit, the folder of a failed test."""
