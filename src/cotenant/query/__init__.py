"""What was asked: read-only SQL over a store, and answers that say how complete they are."""
