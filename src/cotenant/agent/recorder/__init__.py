"""The unprivileged process: drains rings, resolves tenants, writes the store."""
