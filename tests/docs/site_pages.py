"""Reading built HTML pages: their anchors, where they lead, and what a browser would load for them."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself; an <a> is followed by a person only.
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_NOT_LOADED = {"canonical", "prev", "next", "edit", "alternate"}
_CSS = re.compile(r"url\(\s*[\"']?((?:https?:)?//[^\"')]+)|@import\s+[\"']((?:https?:)?//[^\"']+)")


class Page(HTMLParser):
    """One page: `anchors` can be linked to, `links` lead elsewhere, `loads` come with the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors, self.links, self.loads = set[str](), list[str](), list[str]()
        self.feed(text)
        self.loads += [first or second for first, second in _CSS.findall(text)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if _LOADED.get(tag) in given and given.get("rel") not in _NOT_LOADED:
            self.loads.append(given[_LOADED[tag]])


def read_site(folder: Path) -> dict[Path, Page]:
    """Return the pages of a site by their files."""
    return {path: Page(path.read_text("utf-8")) for path in sorted(folder.rglob("*.html"))}


def broken(folder: Path, site: dict[Path, Page]) -> Iterator[str]:
    """Yield one sentence for each link or loaded file inside a site that is not there."""
    for path, page in site.items():
        if path.name == "404.html":  # its links are for a web server that shows it anywhere
            continue
        for link in {*page.links, *page.loads}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            said = f"{path.relative_to(folder)}: {link}"
            if not file.is_relative_to(folder.resolve()) or not file.exists():
                yield f"{said}: there is no such file"
            elif parts.fragment and unquote(parts.fragment) not in site[file].anchors:
                yield f"{said}: there is no such anchor"


def foreign(folder: Path, site: dict[Path, Page]) -> Iterator[str]:
    """Yield one sentence for each thing that a page or a style would load from another host."""
    for path, page in site.items():
        yield from (f"{path.name} loads {one}" for one in page.loads if urlsplit(one).netloc)
    for path in sorted(folder.rglob("*.css")):
        found = _CSS.findall(path.read_text("utf-8"))
        yield from (f"{path.name} loads {first or second}" for first, second in found)
