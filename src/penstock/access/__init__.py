"""Who may do what: principals, rules, and the one question that every door asks.

A door needs four names of here, each imported from its own file: `principal.Peer` and `principal.Principal`,
`resource` (`AccessRight`, `topic`, `group`, `CLUSTER`), and `access.Access`.

    access = Access()                                        # everybody may do everything
    who = access.authenticate_bearer(token, Peer(address, "http", is_private=True))   # Unauthenticated
    access.check(who, AccessRight.WRITE, topic("orders"))    # NotAllowed
    access.admit(who, "orders", len(body))                   # RateLimited: .seconds

Opens no socket, and does not know what a topic holds.
"""
