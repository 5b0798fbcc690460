"""Judge outcomes against expectations."""
