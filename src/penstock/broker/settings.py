"""Bounds and times of the Kafka port."""

from datetime import timedelta

from penstock.settings import Settings, setting


class BrokerSettings(Settings, room="broker"):
    """The Kafka port: its bounds and times."""

    frame_bytes: int = setting(100 * 1024 * 1024, "Largest request, in bytes.", at_least=1024)
    batch_bytes: int = setting(64 * 1024 * 1024, "Most bytes of the records of one batch, unpacked.", at_least=1024)
    connection_bytes: int = setting(
        64 * 1024 * 1024,
        "Bytes of requests under way and answers not yet taken, of one connection, above which no more is read of it.",
        at_least=1024,
    )
    total_bytes: int = setting(
        256 * 1024 * 1024,
        "The same of all connections: above it nothing is read but what is under way. One principal gets half of it.",
        at_least=1024,
    )
    connections: int = setting(
        10_000,
        "Most connections at a time whose client is known; one principal gets three quarters of them. "
        "Connections whose client is not known yet have a quarter as many of their own.",
        at_least=1,
    )
    idle: timedelta = setting(timedelta(minutes=10), "A connection that is silent for this long is closed.", at_least=1)
    auto_create: bool = setting(False, "Whether a topic that is asked for by name is made.")
    partitions: int = setting(
        8, "Partitions of a topic that is made through the Kafka port and does not say.", at_least=1
    )
    produce_bytes_per_second: int = setting(0, "Bytes a second that one client id may send; 0: no limit.", at_least=0)
    fetch_bytes_per_second: int = setting(0, "Bytes a second that one client id may be sent; 0: no limit.", at_least=0)
    fetch_bytes: int = setting(16 * 1024 * 1024, "Most bytes of one fetch, whatever it asks for.", at_least=1024)
    fetch_wait: timedelta = setting(
        timedelta(seconds=60), "Longest time that a fetch may wait for records.", at_least=0
    )
    join_delay: timedelta = setting(
        timedelta(milliseconds=200), "How long a new group waits for more members.", at_least=0
    )
    session_shortest: timedelta = setting(
        timedelta(seconds=1), "Shortest session time-out that a member of a group may ask for.", at_least=0.1
    )
    session_longest: timedelta = setting(
        timedelta(minutes=30), "Longest session time-out that a member of a group may ask for.", at_least=1
    )
    groups_bytes: int = setting(
        64 * 1024 * 1024,
        "Most bytes that members of groups take in memory, with what they said and were given: above it no "
        "more are taken in.",
        at_least=64 * 1024,
    )
    transaction_longest: timedelta = setting(
        timedelta(minutes=15), "Longest time-out that a transaction may ask for.", at_least=1
    )
    producer_expires: timedelta = setting(
        timedelta(days=7), "A producer that is silent for this long is forgotten.", at_least=60
    )
    threads: int = setting(8, "Threads that ask the store for what is not in memory.", at_least=1)
