"""`cotenant serve`: the page, its JSON API and `/metrics`."""
