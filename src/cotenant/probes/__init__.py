"""Where probes go: which functions, in which files, at which byte."""
