"""What `cotenant explain` reports: one module per kind of finding."""
