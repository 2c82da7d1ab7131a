"""Tables computed from recorded ones when a statement names them."""
