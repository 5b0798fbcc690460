"""Move a pin to the furthest commit at which everything expected holds, with carried patches."""
