"""Finding libraries on the host, tenant by tenant."""
