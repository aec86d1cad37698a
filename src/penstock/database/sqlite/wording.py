"""SQLite's words for the neutral SQL of statement files: lists and small tables are JSON."""

from ..contract import Wording

SQLITE = Wording(
    rows="(SELECT {columns} FROM json_each(:{param})) AS {alias}",
    rows_column="json_extract(value, '$[{at}]') AS {name}",
    in_select="IN ({query})",
    in_list="IN (SELECT value FROM json_each(:{list}))",
    not_in_list="NOT IN (SELECT value FROM json_each(:{list}))",
    now_ms="coalesce(:{param}, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER))",
    lock="",
    ordered_join="CROSS JOIN",
    greatest="max",
    least="min",
    octet_length="length",
    cast="",
)
