"""Finding libraries on the host, tenants in turn."""
