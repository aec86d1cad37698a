"""Access control: principals, rules, and the one check that every door makes.

    access = Access()                                        # every client may do everything
    who = access.authenticate_bearer(token, Peer(address, "http", is_private=True))   # Unauthenticated
    access.check(who, AccessRight.WRITE, topic("orders"))    # NotAllowed
    access.admit(who, "orders", len(body))                   # RateLimited: .seconds

Opens no socket, and knows nothing of the records in a topic.
"""
