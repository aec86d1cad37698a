"""Members, leases, ownership and epochs: which member may do what, never what it does with it."""
