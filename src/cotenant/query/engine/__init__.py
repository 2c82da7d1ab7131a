"""SQL to an answer: read-only, bounded, and with how complete it is."""
