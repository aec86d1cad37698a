"""Clients that know the description only: generated ones in Python and Go, and one that asks for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.gateway.grpc_client import ServedGrpc
from tests.services.budget import level_from_environment
from tools import protos

PAGE = Path(__file__).parents[2] / "docs/how-to/grpc.md"
GO = Path(__file__).parent / "go_client"
_SNIPPET = re.compile(r"<!-- grpc: (\w+) -->\n```text\n(.*?)```", re.S)

pytestmark = pytest.mark.usefixtures("brisk")


@pytest.fixture
def served(sqlite_store: str) -> Iterator[ServedGrpc]:
    with ServedGrpc(sqlite_store, threads=4) as made:
        yield made


def test_the_compiled_description_is_what_the_description_says() -> None:
    assert protos.COMPILED.read_bytes() == protos.compiled(), "run: python -m tools.protos"


def test_a_generated_python_client_does_what_the_page_says(served: ServedGrpc, tmp_path: Path) -> None:
    found = dict(_SNIPPET.findall(PAGE.read_text("utf-8")))
    assert found.keys() == {"generate", "client"}
    generate = found["generate"].replace("python -", f"{sys.executable} -")
    subprocess.run(["sh", "-ec", generate], cwd=tmp_path, check=True, timeout=60)
    client = tmp_path / "client.py"
    client.write_text(found["client"].replace("127.0.0.1:8421", served.listener.address))
    done = subprocess.run([sys.executable, client], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["order.placed o-1 b'{\"total\": 42}'", "done: 1"], done.stderr


def test_a_client_that_asks_for_the_description_needs_no_file(served: ServedGrpc) -> None:
    with grpc.insecure_channel(served.listener.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        names = [each for each in database.get_services() if each.startswith("penstock.")]
        assert {"penstock.v1.Publishing", "penstock.v1.Consuming", "penstock.v1.Topics"} <= set(names)
        pool = DescriptorPool(database)
        for name in names:
            for method in pool.FindServiceByName(name).methods:
                assert GetMessageClass(method.input_type)() is not None
        topics = pool.FindServiceByName("penstock.v1.Topics")
        create = topics.methods_by_name["Create"]
        asked = GetMessageClass(create.input_type)(name="orders", partitions=3)
        call = channel.unary_unary(f"/{topics.full_name}/{create.name}")
        answer: Any = GetMessageClass(create.output_type).FromString(call(asked.SerializeToString(), timeout=30))
        assert answer.partitions == 3


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_generated_go_client_publishes_and_consumes(served: ServedGrpc, tmp_path: Path) -> None:
    if level_from_environment() != "long":
        pytest.skip("Go compiles its modules for over a minute: ./scripts/test --long")
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not here")
    folder = tmp_path / "client"
    shutil.copytree(GO, folder)
    home = {"GOFLAGS": "-mod=mod", "GOBIN": str(tmp_path / "bin"), "GOTOOLCHAIN": "local"}
    for tool in (
        "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.6",
        "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1",
    ):
        _go([go, "install", tool], tmp_path, home)
    from grpc_tools import protoc

    plugins = [
        f"--plugin=protoc-gen-go={tmp_path}/bin/protoc-gen-go",
        f"--plugin=protoc-gen-go-grpc={tmp_path}/bin/protoc-gen-go-grpc",
    ]
    out = [f"--go_out={folder}", f"--go-grpc_out={folder}"]
    assert protoc.main(["protoc", f"--proto_path={protos.FOLDER}", *plugins, *out, protos.SOURCE]) == 0
    _go([go, "build", "-o", "client", "."], folder, home)
    done = subprocess.run([folder / "client", served.listener.address], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said == ["published 100", "same places", "consumed 100 in order", "NotFound unknown_topic"]


def _go(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """Run the Go tool; where its modules cannot be had, skip."""
    done = subprocess.run(command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=200)
    if done.returncode and re.search(r"dial tcp|no such host|proxyconnect|i/o timeout|403|404|lookup", done.stderr):
        pytest.skip(f"the modules of Go cannot be had here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
