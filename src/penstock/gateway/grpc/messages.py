"""The messages and services of the description, made at run time from its compiled form.

No code is generated: generated code runs only with the Protobuf release that made it or a later one, and the
description holds the same information. The messages live in a pool of their own, apart from any other in the
process.
"""

from importlib.resources import files
from typing import Any

from penstock.errors import MissingExtra

try:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
except ImportError as exc:
    raise MissingExtra("serving gRPC", "grpc") from exc

PACKAGE = "penstock.v1"
SERVICES = ("Publishing", "Consuming", "Topics", "Groups", "Schemas")
COMPILED = "proto/penstock_gateway.binpb"

POOL = DescriptorPool()
for _file in FileDescriptorSet.FromString(files(__package__).joinpath(COMPILED).read_bytes()).file:
    POOL.Add(_file)


def message(name: str) -> Any:
    """Return the class of a message."""
    return GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def service(name: str) -> Any:
    """Return the description of a service: its methods, in order."""
    return POOL.FindServiceByName(f"{PACKAGE}.{name}")


Group = message("Group")
Header = message("Header")
Place = message("Place")
PublishResponse = message("PublishResponse")
ReadResponse = message("ReadResponse")
Record = message("Record")
SubscribeResponse = message("SubscribeResponse")
Topic = message("Topic")
