"""Finding libraries on the host: a fair queue of tenants."""
