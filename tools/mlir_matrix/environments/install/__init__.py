"""Install locked packages into folders named by their content."""
