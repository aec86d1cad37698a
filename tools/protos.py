"""Compile the description of the gRPC door: `python -m tools.protos [--check]`.

What ships is the description itself, for those who generate a client from it, and its compiled form, a
FileDescriptorSet, from which the server makes its messages. `--check` exits with 1 if that is not up to date.
"""

import argparse
import sys
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorSet

FOLDER = Path(__file__).parents[1] / "src/penstock/gateway/grpc/proto"
SOURCE = "penstock_gateway.proto"
COMPILED = FOLDER / "penstock_gateway.binpb"


def compiled() -> bytes:
    """Return the compiled form, without the comments: what a client asks for by reflection."""
    from grpc_tools import protoc  # of the group dev

    include = str(files("grpc_tools").joinpath("_proto"))
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.binpb"
        flags = [f"--proto_path={FOLDER}", f"--proto_path={include}", "--include_imports"]
        if protoc.main(["protoc", *flags, f"--descriptor_set_out={out}", SOURCE]) != 0:
            raise SystemExit(f"{SOURCE} does not compile")
        found = FileDescriptorSet.FromString(out.read_bytes())
    return found.SerializeToString(deterministic=True)


def main() -> int:
    """Write the compiled form, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    made = compiled()
    if not parser.parse_args().check:
        COMPILED.write_bytes(made)
    elif COMPILED.read_bytes() != made:
        print(f"{COMPILED.name} is not what {SOURCE} says; run: python -m tools.protos")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
