"""Images of environments, made from their locks alone, and the container daemon."""
