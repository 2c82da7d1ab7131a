"""Asking for names: which cgroup next, which source, and what the answer holds."""
