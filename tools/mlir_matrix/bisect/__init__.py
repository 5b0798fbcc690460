"""Find the release that changed the result of a test."""
