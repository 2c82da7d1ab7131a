"""Pure parsing of cgroup paths: unit, job, container; no I/O."""
