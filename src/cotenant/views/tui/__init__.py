"""`cotenant top`: the live terminal view."""
