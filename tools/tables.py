"""Tables of the generated pages."""

from collections.abc import Iterable


def table(columns: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown; the columns are divided by bars."""
    lines = [f"| {columns} |", f"|{'---|' * len(columns.split(' | '))}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
