"""The running recorder: the only place where probes, identity and store meet."""
