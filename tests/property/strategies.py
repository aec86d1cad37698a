"""What Hypothesis draws from: text, JSON, headers, records and their envelopes."""

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st

from penstock.model.record import RawHeaders, Record
from penstock.model.retry import Custom, Exponential, Fixed, Linear, PowerOfTwo, RetryPolicy

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999
OWN_HEADERS = ("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time")

# All planes and NUL; only lone surrogates are left out, which no UTF-8 can hold.
texts = st.text(st.characters(exclude_categories=["Cs"]))
some_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
moments_ms = st.integers(FIRST_MS, LAST_MS)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
json_bytes = json_values.map(msgspec.json.encode)
# Also what a person may write: blanks around and inside, members in their own order.
spaced_json = st.builds(
    lambda value, before, after: before + msgspec.json.format(msgspec.json.encode(value)) + after,
    json_values,
    st.sampled_from([b"", b" ", b"\n\t"]),
    st.sampled_from([b"", b"\r\n", b" "]),
)
data = st.none() | st.just(b"") | st.binary() | json_bytes | spaced_json

content_types = st.tuples(
    st.just("content-type"),
    st.none()
    | st.binary(max_size=4)
    | st.sampled_from(
        [
            b"application/json",
            b"application/json; charset=utf-8",
            b"application/octet-stream",
            b"application/x+json",
            b"text/plain",
        ]
    ),
)
header = st.tuples(texts | st.sampled_from(["a", "ce_subject"]), st.none() | st.binary(max_size=80))
headers: st.SearchStrategy[RawHeaders] = st.lists(
    header.filter(lambda each: each[0] not in OWN_HEADERS) | content_types, max_size=6
).map(tuple)

records = st.builds(
    Record, id=some_text, key=st.none() | texts, data=data, type=some_text, raw_headers=headers, timestamp_ms=moments_ms
)


def _spans(at_least_ms: int) -> st.SearchStrategy[timedelta]:
    ms = st.integers(at_least_ms, 5_000) | st.integers(at_least_ms, 3650 * 86_400_000)
    return ms.map(lambda each: timedelta(milliseconds=each))


_above_zero, _from_zero = _spans(1), _spans(0)
_multipliers = st.floats(1.0, exclude_min=True, allow_infinity=False, allow_nan=False)
_answers: st.SearchStrategy[Any] = st.floats() | st.integers() | st.none() | st.timedeltas()


def _custom(answers: list[Any], max_delay: timedelta, jitter: timedelta) -> Custom:
    return Custom(lambda n: answers[n % len(answers)], max_delay, jitter=jitter)


linear = st.builds(Linear, _above_zero, _above_zero, _above_zero, jitter=_from_zero)
exponential = st.builds(Exponential, _above_zero, _multipliers, _above_zero, jitter=_from_zero)
policies: st.SearchStrategy[RetryPolicy] = st.one_of(
    st.builds(Fixed, _above_zero, jitter=_from_zero),
    linear,
    exponential,
    st.builds(PowerOfTwo, _above_zero, jitter=_from_zero),
    st.builds(_custom, st.lists(_answers, min_size=1, max_size=3), _above_zero, _from_zero),
)
failure_counts = st.integers(1, 6) | st.integers(1, 10_000)
