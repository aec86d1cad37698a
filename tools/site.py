"""Build the documentation site: `python -m tools.site [--to FOLDER] [--serve [--port N]]`.

The pages are the project's Markdown files: those in docs/, those at its root and the READMEs of the examples.
They and their pictures are copied, links are changed to match, and Zensical makes HTML with search from them.
A link to a file that is neither (code, tests) becomes plain text. The menu is docs/README.md: a section for
each of its headings, an entry for each link in a list. Nothing is fetched from the network.
"""

import argparse
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).parents[1]
SITE = PROJECT / "build" / "site"
START = "docs/README.md"
AT_THE_ROOT = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")

_FENCE = re.compile(r" *(`{3,}|~{3,})")
_CODE_OR_LINK = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|\[(?P<text>(?:[^\]\[`]|`[^`]*`|\[[^\]]*\])*)\]\((?P<link>[^)\s]+)\)"
)
_SHOWN = re.compile(r'\b(?P<name>src|srcset)="(?P<link>[^":]+)"')
_HEADING = re.compile(r"#{2,3} (.+)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ENTRY = re.compile(r"- \[(.+)\]\(([^)#]+)\)")

CONFIG = """\
[project]
site_name = "Penstock"
site_description = "From your database to your lakehouse: every event, in order per key, once in your tables."
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = {nav}

[project.theme]
font = false
features = ["content.code.copy", "navigation.sections", "navigation.top", "search.highlight", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"

[project.extra]
generator = false

[project.markdown_extensions.tables]

[project.markdown_extensions.toc]
permalink = true
slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}

[project.markdown_extensions.pymdownx.highlight]

[project.markdown_extensions.pymdownx.superfences]
"""


class NotBuilt(Exception):
    """The site cannot be built; the sentence says why."""


def pages(project: Path = PROJECT) -> dict[str, str]:
    """Return where each page of the project, by its path, stands in the site."""
    docs = {path: _place(path) for path in _below(project, "docs/**/*.md") if path != START}
    examples = {path: f"{PurePosixPath(path).parent}.md" for path in _below(project, "examples/*/README.md")}
    root = {name: f"project/{name.lower()}" for name in AT_THE_ROOT if (project / name).exists()}
    return {START: "index.md", **docs, **examples, **root}


def _place(path: str) -> str:
    return re.sub(r"README\.md$", "index.md", path.removeprefix("docs/"))


def pictures(project: Path = PROJECT) -> dict[str, str]:
    """Return where each picture of the documentation, by its path, stands in the site."""
    found = (*_below(project, "docs/**/*.svg"), *_below(project, "docs/**/*.png"))
    return {path: path.removeprefix("docs/") for path in found}


def turned(text: str, path: str, places: dict[str, str]) -> str:
    """Return a page's text with its links as they are in the site."""
    lines, fence = list[str](), ""
    for line in text.splitlines():
        match = _FENCE.match(line)
        if fence:
            fence = "" if match and match[1].startswith(fence) else fence
        elif match:
            fence = match[1]
        else:
            line = _CODE_OR_LINK.sub(partial(_turned_link, path=path, places=places), line)
            line = _SHOWN.sub(partial(_turned_picture, path=path, places=places), line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def menu(text: str, places: dict[str, str]) -> list[dict[str, object]]:
    """Return the sections of the start page with their pages. Raises NotBuilt for a page left out.

    A folder whose index is listed lists its pages itself, such as the archive of decisions.
    """
    sections: dict[str, list[dict[str, str]]] = {}
    listed, section = {places[START]}, "Start"
    sections[section] = [{"Documentation": places[START]}]
    for line in text.splitlines():
        if heading := _HEADING.fullmatch(line):
            section = heading[1]
        elif (entry := _ENTRY.match(line)) and (place := places.get(_joined(START, entry[2]))):
            sections.setdefault(section, []).append({entry[1]: place})
            listed.add(place)
    folders = {PurePosixPath(place).parent for place in listed - {places[START]} if place.endswith("/index.md")}
    left_out = sorted(place for place in set(places.values()) - listed if PurePosixPath(place).parent not in folders)
    if left_out:
        raise NotBuilt(f"{START} has no list entry for {', '.join(left_out)}")
    return [{name: entries} for name, entries in sections.items()]


def build(to: Path = SITE, project: Path = PROJECT) -> None:
    """Build the site into a folder, in place of an older one.

    Raises NotBuilt for any warning of Zensical's, and for a folder that holds something else.
    """
    if to.exists() and any(to.iterdir()) and not (to / "search.json").exists():
        raise NotBuilt(f"{to} holds something else than a site; name another folder")
    places, plates = pages(project), pictures(project)
    with tempfile.TemporaryDirectory() as folder:
        for path, place in places.items():
            copy = Path(folder, "pages", place)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(turned((project / path).read_text("utf-8"), path, places | plates), "utf-8")
        for path, place in plates.items():
            copy = Path(folder, "pages", place)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(project / path, copy)
        nav = json.dumps(menu((project / START).read_text("utf-8"), places), ensure_ascii=False)
        Path(folder, "zensical.toml").write_text(CONFIG.format(nav=nav.replace('": ', '" = ')), "utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = _COLOUR.sub("", done.stdout + done.stderr)
            raise NotBuilt(f"zensical: {said.partition('Traceback')[0] or said}")
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(Path(folder, "site"), to)


def main(args: list[str] | None = None) -> int:
    """Build the site, and serve it if asked; return the exit code."""
    parser = argparse.ArgumentParser("python -m tools.site", description="Build the documentation site.")
    parser.add_argument("--to", type=Path, default=SITE, help="the folder for the site (build/site)")
    parser.add_argument("--serve", action="store_true", help="serve it on this machine until Ctrl-C")
    parser.add_argument("--port", type=int, default=8421, help="the port to serve on; 0 picks a free one")
    chosen = parser.parse_args(args)
    try:
        build(chosen.to)
    except NotBuilt as error:
        print(error, file=sys.stderr)
        return 1
    print(f"the site is in {chosen.to}")
    if chosen.serve:
        _serve(chosen.to, chosen.port)
    return 0


def _serve(folder: Path, port: int) -> None:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http listening on 127.0.0.1:{server.server_address[1]}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")


def _turned_link(match: re.Match[str], path: str, places: dict[str, str]) -> str:
    link = match["link"]
    if link is None or "://" in link or link.startswith(("#", "mailto:")):
        return match[0]
    file, _, anchor = link.partition("#")
    place = places.get(_joined(path, file))
    if place is None:
        return match["text"]
    target = os.path.relpath(place, PurePosixPath(places[path]).parent)
    return f"[{match['text']}]({target}{'#' + anchor if anchor else ''})"


def _turned_picture(match: re.Match[str], path: str, places: dict[str, str]) -> str:
    place = places.get(_joined(path, match["link"]))
    if place is None:
        return match[0]
    return f'{match["name"]}="{os.path.relpath(place, PurePosixPath(places[path]).parent)}"'


def _joined(path: str, link: str) -> str:
    return os.path.normpath(PurePosixPath(path).parent / link)


def _below(project: Path, pattern: str) -> Iterator[str]:
    yield from (path.relative_to(project).as_posix() for path in sorted(project.glob(pattern)))


if __name__ == "__main__":
    sys.exit(main())
