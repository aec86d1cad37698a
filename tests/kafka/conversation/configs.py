"""What topics and brokers are set to."""

from penstock.wire.kafka.apis.topics import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from penstock.wire.kafka.layout import Message

from .bodies import made
from .talk import Talk, numbers

_TOPIC, _BROKER, _ODD = 2, 4, 77
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_SHOWN = ["retention.ms", "cleanup.policy", "retention.bytes"]


def configs(talk: Talk) -> None:
    made(talk, "set", retention_ms="100000")

    def show(step: str, *keys: str, kind: int = _TOPIC, name: str = "set") -> None:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys or _SHOWN)}
        talk.ask(f"configs/{step}", DESCRIBE_CONFIGS, 4, {"resources": [resource], "include_synonyms": False})
        for each in talk.answers[f"configs/{step}"]["results"]:
            each["configs"].sort(key=lambda one: one["name"])

    def settled(value: str, name: str = "cleanup.policy") -> None:
        """Wait until something is what it was set to: Apache Kafka's broker hears of it later."""
        keys = {"resource_type": _TOPIC, "resource_name": "set", "configuration_keys": [name]}
        asked = {"resources": [keys], "include_synonyms": False}
        talk.until(DESCRIBE_CONFIGS, 4, asked, lambda said: said["results"][0]["configs"][0]["value"] == value)

    def resource(configs: list[Message], kind: int = _TOPIC, name: str = "set") -> Message:
        return {"resource_type": kind, "resource_name": name, "configs": configs}

    def change(step: str, *changes: tuple[str, int, str | None], check: bool = False, **where: object) -> bool:
        some = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in changes]
        asked = {"resources": [resource(some, **where)], "validate_only": check}  # type: ignore[arg-type]
        return not any(numbers(talk.ask(f"configs/{step}", INCREMENTAL_ALTER_CONFIGS, 1, asked)))

    show("shown")
    show("one that is none", "no.such")
    show("an unknown topic", name="nowhere")
    show("a name that is none", name="a/b")
    show("of a kind that is none", kind=_ODD)
    show("of another broker", kind=_BROKER, name="99")
    show("of a broker without a number", kind=_BROKER, name="x")
    change("set", ("retention.ms", _SET, "200000"))
    change("set, to be checked only", ("retention.ms", _SET, "300000"), check=True)
    change("set to what is none", ("retention.ms", _SET, "soon"))
    change("set below its least", ("retention.ms", _SET, "-2"))
    change("one that is none set", ("no.such", _SET, "1"))
    change("set without a value", ("retention.ms", _SET, None))
    change("added to what is no list", ("retention.ms", _APPEND, "1"))
    change("an operation that is none", ("retention.ms", 9, "1"))
    change("twice in one request", ("retention.ms", _SET, "1"), ("retention.ms", _SET, "2"))
    change("a policy that is none", ("cleanup.policy", _SET, "odd"))
    change("an unknown topic set", ("retention.ms", _SET, "1"), name="nowhere")
    change("of a kind that is none set", ("retention.ms", _SET, "1"), kind=_ODD)
    change("all forgotten that is not set", ("retention.bytes", _DELETE, None))
    show("shown after that")
    is_compacted = change("compacted", ("cleanup.policy", _SET, "compact"))  # a database refuses
    if is_compacted:
        settled("compact")
    show("shown as compacted")
    change("compacted and deleted", ("cleanup.policy", _APPEND, "delete"))
    if is_compacted:
        settled("compact,delete")
    show("shown as both")
    change("deleted only", ("cleanup.policy", _SUBTRACT, "compact"))
    change("forgotten", ("retention.ms", _DELETE, None), ("cleanup.policy", _DELETE, None))
    show("shown as in the beginning", "cleanup.policy", "retention.bytes")
    whole = resource([{"name": "retention.bytes", "value": "12345"}])
    talk.ask("configs/set as a whole", ALTER_CONFIGS, 2, {"resources": [whole], "validate_only": False})
    settled("12345", "retention.bytes")
    show("shown as set")
    twice = {"resources": [whole, whole], "validate_only": False}
    talk.ask("configs/a topic twice in one request", ALTER_CONFIGS, 2, twice)


CHAPTERS = (configs,)
