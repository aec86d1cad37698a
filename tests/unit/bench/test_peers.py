from pathlib import Path

import pytest

from bench import NotMeasured, Peer
from bench.errors import PeerFailed

ECHO = """
import json, sys
seen = {"args": sys.argv[1:], "prefix": sys.prefix, "path": sys.path}
json.dump(seen | {"given": json.load(sys.stdin)}, sys.stdout)
"""
ANSWERS = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message == "fail":
        sys.exit("cannot go on")
    print(json.dumps({"heard": message}), flush=True)
"""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    peer = Peer(name="fake", home=tmp_path_factory.mktemp("home"))
    peer.ensure()
    return peer


def a_script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(text)
    return path


def test_a_script_runs_in_the_environment_of_its_peer(
    peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere/of/ours")

    ran = peer.run(a_script(tmp_path, ECHO), ["--fast"], {"events": 3})

    assert ran.output["given"] == {"events": 3}
    assert ran.output["args"] == ["--fast"]
    assert ran.output["prefix"] == str(peer.folder)
    assert "/somewhere/of/ours" not in ran.output["path"]


def test_a_run_says_what_its_process_cost(peer: Peer, tmp_path: Path) -> None:
    text = "import time\nhold = bytearray(b'x' * 40_000_000)\nwhile time.process_time() < 0.1: pass\nprint(1)"

    ran = peer.run(a_script(tmp_path, text))

    assert ran.output == 1
    assert ran.wall_seconds > 0
    assert ran.cpu_seconds >= 0.1
    assert ran.rss_peak_mb >= 40


@pytest.mark.parametrize(
    ("text", "words"),
    [("import sys; sys.exit('no such thing')", "exit code 1: no such thing"), ("print('hello')", "not JSON: 'hello")],
)
def test_a_script_that_ends_badly_is_reported(peer: Peer, tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(PeerFailed, match=words):
        peer.run(a_script(tmp_path, text))


def test_a_talk_answers_line_by_line(peer: Peer, tmp_path: Path) -> None:
    with peer.talk(a_script(tmp_path, ANSWERS)) as talk:
        assert talk.pid > 0
        assert talk.ask("go") == {"heard": "go"}
        assert talk.ask([1, 2]) == {"heard": [1, 2]}


def test_a_talk_that_breaks_off_gives_its_last_words(peer: Peer, tmp_path: Path) -> None:
    with (
        peer.talk(a_script(tmp_path, ANSWERS)) as talk,
        pytest.raises(PeerFailed, match="ended instead of answering: cannot go on"),
    ):
        talk.ask("fail")


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    said: list[str] = []
    peer = Peer(name="fake", home=tmp_path)

    peer.ensure(said.append)
    (peer.folder / "keepsake").touch()
    peer.ensure(said.append)

    assert said == ["peer fake: making its virtual environment (first use)"]
    assert (peer.folder / "keepsake").exists()


def test_a_half_made_environment_is_made_anew(tmp_path: Path) -> None:
    peer = Peer(name="fake", home=tmp_path)
    (peer.folder / "bin").mkdir(parents=True)
    (peer.folder / "bin" / "python").write_text("not finished")

    peer.ensure()

    assert peer.run(a_script(tmp_path, "print(1)")).output == 1


def test_what_cannot_be_installed_is_not_measured_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    peer = Peer(name="rival", requirements=["penstock-rival==1"], home=tmp_path)

    with pytest.raises(NotMeasured, match="peer rival: could not install penstock-rival==1: No matching"):
        peer.ensure()
    assert not peer.folder.exists()
