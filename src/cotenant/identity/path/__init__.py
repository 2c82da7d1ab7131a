"""Pure parsing: what a cgroup path says about who is in it; no I/O."""
