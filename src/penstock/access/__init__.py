"""Access control: principals, rules, and the one check that every door makes.

A door imports four names from this room, each from its own file: `principal.Peer` and `principal.Principal`,
`resource` (`AccessRight`, `topic`, `group`, `CLUSTER`), and `access.Access`.

    access = Access()                                        # every client may do everything
    who = access.authenticate_bearer(token, Peer(address, "http", is_private=True))   # Unauthenticated
    access.check(who, AccessRight.WRITE, topic("orders"))    # NotAllowed
    access.admit(who, "orders", len(body))                   # RateLimited: .seconds

Opens no socket, and knows nothing of the records in a topic.
"""
