"""PostgreSQL's words for the neutral SQL of statement files, for psycopg."""

from ..contract import Wording

POSTGRES = Wording(
    rows="unnest({columns}) AS {alias} ({names})",
    rows_column=":{param}.{name}::{type}[]",
    in_select="= ANY(ARRAY({query}))",
    # In a subquery the clock is read once; as a plain call, once for each row, and it can use no index.
    now_ms=("(SELECT coalesce(:{param}::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))"),
    ordered_join="JOIN",
    percent="%%",
    position="%s",
    parameter="%({name})s",
)
