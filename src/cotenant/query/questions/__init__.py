"""Named questions: one `.sql` file each, and the loader that fills in parameters."""
