"""The bill of materials of the wheel, and the audit of the pins: tools of a release."""

import json
from pathlib import Path

from cyclonedx.output.json import JsonV1Dot6

from tools.audit import weaknesses
from tools.bill import bill

ROOT = Path(__file__).resolve().parents[2]


def test_the_bill_names_every_package_that_comes_along_in_its_pinned_version(tmp_path: Path) -> None:
    wheel = tmp_path / "penstock_outbox-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    told = json.loads(JsonV1Dot6(bill(wheel)).output_as_string())
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    pinned = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    found = {each["purl"].removeprefix("pkg:pypi/").partition("@")[0]: each for each in told["components"]}
    assert {"click", "grpcio", "pyspark", "psycopg-binary", "cffi"} <= found.keys()  # also of extras
    assert not {"pytest", "bandit"} & found.keys()
    assert {name: each["version"] for name, each in found.items()} == {name: pinned[name] for name in found}
    assert told["metadata"]["component"]["hashes"][0]["alg"] == "SHA-256"
    assert {each["ref"] for each in told["dependencies"]} >= {each["bom-ref"] for each in told["components"]}


def test_an_audit_without_its_data_says_so_and_one_with_it_names_what_is_weak() -> None:
    assert weaknesses("") == ([], "note: pip-audit could not reach its data, so no pin was audited")
    skipped = {"name": "a", "skip_reason": "not found"}
    assert weaknesses(json.dumps({"dependencies": [skipped]}))[1].endswith("no pin was audited")
    weak = {"name": "b", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
    found, note = weaknesses(json.dumps({"dependencies": [skipped, weak]}))
    assert found == ["b 1.0: PYSEC-1, mended in 1.1"]
    assert note == "note: pip-audit knows nothing of 1 of 2 pins"
