"""Tables that are computed from recorded ones when a question names them."""
