"""Members, leases, ownership and epochs: who may do what, never what is done with it."""
