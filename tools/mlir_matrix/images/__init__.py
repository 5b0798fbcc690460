"""Images of environments, made from their locks alone, and the daemon that keeps and runs them."""
