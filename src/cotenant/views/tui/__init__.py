"""The live terminal view: who does what on this host, now."""
