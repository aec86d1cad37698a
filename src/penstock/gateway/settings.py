"""Bounds and times of the gateway's doors."""

from datetime import timedelta

from penstock.settings import Settings, setting


class GatewaySettings(Settings, room="gateway"):
    """REST and gRPC: their bounds and times."""

    connections: int = setting(
        1000,
        "Most HTTP connections, and gRPC calls, at a time, of clients that are known; more are refused. One "
        "principal gets three quarters of them at most. Connections whose client is not known yet have a "
        "quarter as many of their own.",
        at_least=1,
    )
    host_names: tuple[str, ...] = setting(
        (),
        "Host names that HTTP clients reach this process by, without TLS. Requests to other names are "
        "refused, so that no web page gets in by DNS rebinding; IP addresses and localhost are always known.",
    )
    body_bytes: int = setting(
        16 * 1024 * 1024, "Largest body of a request, in bytes, as it comes and unpacked.", at_least=1024
    )
    bodies_bytes: int = setting(
        256 * 1024 * 1024,
        "Most bytes of requests in hand, of all connections of a door; more are answered 503, a gRPC stream "
        "waits. One principal gets three quarters of them at most, and always one request of body_bytes.",
        at_least=1024,
    )
    body_time: timedelta = setting(
        timedelta(seconds=30), "How long the body of a request may take to come.", at_least=0.1
    )
    answer_bytes: int = setting(4 * 1024 * 1024, "About how many bytes of records an answer has.", at_least=1024)
    answers_bytes: int = setting(
        128 * 1024 * 1024,
        "Most bytes of answers above 64 KB that clients have not taken yet, of all connections of a REST "
        "door; more requests are answered 503. An answer has at most a quarter of what is left.",
        at_least=1024,
    )
    threads: int = setting(8, "Threads that ask the store.", at_least=1)
    lease: timedelta = setting(
        timedelta(seconds=30), "How long a client may keep records that it does not ask a time for.", at_least=0.1
    )
    lease_longest: timedelta = setting(timedelta(hours=1), "Longest time that a client may keep records.", at_least=1)
    leased_records: int = setting(
        1000, "Most records of a group that clients of one gateway keep at a time.", at_least=1
    )
    groups: int = setting(
        10,
        "Most groups that one gateway serves at a time, each on a topic, and seven of ten for one principal; "
        "each takes up to four database connections.",
        at_least=1,
    )
    streams: int = setting(
        100,
        "Most streams of server-sent events at a time, three quarters of them for one principal; more are "
        "answered 503.",
        at_least=1,
    )
    settle_wait: timedelta = setting(
        timedelta(seconds=10), "How long an acknowledgement waits until it is written down.", at_least=0.1
    )
    group_idle: timedelta = setting(
        timedelta(seconds=15),
        "A group that nobody asks for records for so long is given back to other gateways.",
        at_least=0.1,
    )


class TinyqSettings(Settings, room="tinyq"):
    """The TinyQ port: admission, bounds and times."""

    password_sha256: str = setting(
        "", "SHA-256 of the password, 64 digits in hex; empty: a token of the access file is shown instead."
    )
    auth_timeout: timedelta = setting(
        timedelta(seconds=30), "How long a client may take to say its password.", at_least=0.1
    )
    frame_time: timedelta = setting(
        timedelta(seconds=60), "How long a request may take to come, once it has begun.", at_least=0.1
    )
    max_body_bytes: int = setting(10_240_000, "Largest body of a request, in bytes.", at_least=1024)
    max_connections: int = setting(
        32,
        "Most connections at a time whose client has said its password; more are answered 51 (busy). One "
        "address or principal gets three quarters of them at most, and those that have yet to say it have "
        "eight, or a quarter, of their own.",
        at_least=1,
    )
    partitions: int = setting(1, "Partitions of a topic that is made through the TinyQ port.", at_least=1)
