"""SQL to an answer: read-only, bounded, and with its completeness."""
