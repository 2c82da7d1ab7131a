"""Tables that are written once a second."""
