"""Django's models in the transaction of a handler, in a real project."""

from pathlib import Path

import pytest

from tests.conformance.django_project import Project, sound
from tests.services.slow import but_the_first

JOINING = "from tests.conformance.django_joining import main; main()"


@pytest.mark.parametrize("engine", but_the_first(["sqlite", "postgres"]))
def test_models_join_the_transaction_of_a_handler(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    project = Project(tmp_path / "project", request.getfixturevalue(f"{engine}_store"))
    databases = project.settings["DATABASES"]
    elsewhere = {"sqlite": str(tmp_path / "other.db"), "postgres": "postgres"}
    databases["other"] = {**databases["default"], "NAME": elsewhere[engine]}
    said = sound(project.manage("migrate", ["shell", "-c", JOINING]))
    assert said.count("\npassed ") == 6
