"""The unprivileged process: rows out of the rings, into the store."""
