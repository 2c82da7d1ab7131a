"""Where we look: which functions, in which files, by which means."""
