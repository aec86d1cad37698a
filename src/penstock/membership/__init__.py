"""Members, leases, ownership and epochs: the rights of each member, never their use."""
