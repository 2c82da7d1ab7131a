"""The page: the tenants' timeline in a browser, served from this host to this host."""
