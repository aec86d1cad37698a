"""The reader of pages reads them as GitHub does."""

import pytest

from tests.docs.pages import Block, blocks, headings, links

PAGE = """# One `idea`: a log

See [the log](docs/log.md#words), `[no](link)` and ![a picture](a.png "title").

```python
x = "[not](a-link)"
# not a heading
```

## Twice
## Twice

~~~text
```
~~~

[ref]: other.md
"""


def test_blocks_have_their_kind_text_and_line() -> None:
    assert blocks(PAGE) == [Block("python", 'x = "[not](a-link)"\n# not a heading\n', 6), Block("text", "```\n", 14)]


def test_headings_become_anchors() -> None:
    assert headings(PAGE) == {"one-idea-a-log", "twice", "twice-1"}


def test_links_are_found_outside_of_code() -> None:
    assert list(links(PAGE)) == [(3, "docs/log.md#words"), (3, "a.png"), (17, "other.md")]


def test_a_block_that_is_never_closed_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2"):
        blocks("text\n```python\nx = 1\n")
