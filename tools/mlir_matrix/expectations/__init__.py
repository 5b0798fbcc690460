"""Expected failures, proposed from what fails, and IR tests in conflict."""
