"""From a ring to the rows of a table."""
