"""Ring records to table rows."""
