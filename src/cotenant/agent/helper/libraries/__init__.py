"""The libraries that are probed: who brought them, and which of their functions have probes."""
