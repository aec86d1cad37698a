"""Errors of clients' requests, and of the rules that allow them."""

from .base import Error, Fault, shown


class RequestError(Error, code="request", fault=Fault.CALLER):
    """A request of a client cannot be served."""


class InvalidRequest(RequestError, code="invalid_request", closes=True):
    """The received bytes are not a request, so the bytes after them cannot be parsed either."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not a valid request: {why}")


class FrameTooLarge(RequestError, code="frame_too_large", closes=True):
    """A request announces more bytes than the limit."""

    def __init__(self, size: int, limit: int, before_login: bool = False) -> None:
        bound = f"broker.frame_bytes is {limit}; send smaller batches, or raise the limit"
        if before_login:
            bound = (
                f"before login a request has at most {limit} bytes; let the client log in first: set its "
                "security.protocol and sasl.mechanism, or give it a certificate"
            )
        super().__init__(f"a request announces {size} bytes, and {bound}")


class BodyTooLarge(RequestError, code="body_too_large", closes=True):
    """The body of a request, compressed or not, exceeds the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body has more than {limit} bytes, the limit gateway.body_bytes; send less at once")


class BodyLate(RequestError, code="body_late", retryable=True, closes=True):
    """The body of a request did not arrive in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the body did not arrive within the {seconds:g} s of gateway.body_time; send it again")


class UnsupportedBody(RequestError, code="unsupported_body"):
    """The content type or encoding of a request body is not supported."""

    def __init__(self, what: str, found: str, known: str) -> None:
        super().__init__(f"the {what} {shown(found)} is not supported; send {known}")


class NotConvertible(RequestError, code="not_convertible"):
    """A value cannot be converted to the requested content type; the stored value is unchanged."""

    def __init__(self, found: str, wanted: str, why: str) -> None:
        super().__init__(f"{shown(found)} cannot be converted to {shown(wanted)}: {why}")


class UnknownValueSchema(RequestError, code="unknown_value_schema"):
    """No schema is registered for the values of a type of a topic."""

    def __init__(self, topic: str, type: str) -> None:
        of = f"type {type} of topic {topic}" if type else f"all types of topic {topic}"
        super().__init__(f"no schema is registered for {of}; GET /v1/topics/{topic}/schemas lists them")


class NotAllowed(RequestError, code="not_allowed"):
    """The principal lacks the permission."""

    def __init__(self, principal: str, action: str, resource: str) -> None:
        super().__init__(f"{principal} may not {action} {resource}")


class ForeignPage(RequestError, code="foreign_page"):
    """A page of another site made the browser send a request that changes something here."""

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"the request comes from a page of another site, {shown(origin)}; send it from a page of this "
            "host, or with a token"
        )


class UnknownHost(RequestError, code="unknown_host"):
    """A request names a host that is not one of the HTTP listener's names."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{shown(host)} is not a host name of this listener; use its IP address or localhost, or add the "
            "name to gateway.host_names"
        )


class Unauthenticated(RequestError, code="unauthenticated"):
    """Credentials are missing or wrong; they are never quoted."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not authenticated: {why}")


class RateLimited(RequestError, code="rate_limited", retryable=True):
    """A rate limit is reached; try again after `seconds`."""

    def __init__(self, principal: str, topic: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"{principal} has exceeded its rate limit for topic {topic}; try again after {seconds:.1f} s, or "
            "raise the limit in the access file"
        )


class BatchTooLarge(RequestError, code="batch_too_large"):
    """A batch of records exceeds the limit."""

    def __init__(self, topic: str, partition: int, size: int, limit: int) -> None:
        super().__init__(
            f"a batch for {topic}/{partition} was refused: it has {size} bytes or more, and the limit is "
            f"{limit}; send smaller batches, or raise broker.batch_bytes"
        )


class ForeignPartition(RequestError, code="foreign_partition"):
    """A record's partition is not the one where the topic's partitioner places its key."""

    def __init__(self, topic: str, partition: int, own: int) -> None:
        super().__init__(
            f"topic {topic} places keys by murmur3, but a record for partition {partition} has a key of "
            f"partition {own}; set the client's partitioner to murmur3 (penstock.partition_of), leave the "
            "key out, or give up the order between outbox and Kafka: set penstock.foreign.keys=allowed on "
            "the topic"
        )


class UnknownProducer(RequestError, code="unknown_producer"):
    """That producer id was never issued."""

    def __init__(self, producer: object) -> None:
        super().__init__(f"producer {shown(producer)} is not known; request a new producer id")


class InvalidTransaction(RequestError, code="invalid_transaction"):
    """A transaction is not open, or its state does not allow the request."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(f"transaction {shown(id)}: {why}")


class InvalidConfig(RequestError, code="invalid_config"):
    """The value of a topic setting is not valid."""

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{name}={shown(value)}: it must be {wanted}")


class AccessError(Error, code="access", fault=Fault.CALLER):
    """Access rules, a certificate or the access file cannot be used."""


class InvalidRule(AccessError, code="invalid_rule"):
    """A line is not a valid rule."""

    def __init__(self, rule: str, place: str, why: str) -> None:
        super().__init__(f"{place}: {shown(rule)}: {why}" if place else f"{shown(rule)}: {why}")


class InvalidAccessFile(AccessError, code="invalid_access_file"):
    """The access file, or a file that it names, cannot be used. The message never quotes a secret."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"access file {path}: {why}")


class InvalidCertificate(AccessError, code="invalid_certificate"):
    """A certificate, a key or an authority cannot be used for TLS."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


class UnknownRule(AccessError, code="unknown_rule"):
    """The database has no such rule."""

    def __init__(self, rule: str) -> None:
        super().__init__(
            f"the database has no rule {shown(rule)}; penstock access list shows all rules; remove a rule of "
            "the access file from that file"
        )


class LeftOpen(AccessError, code="left_open"):
    """A change of rules or users would let every client do everything."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
