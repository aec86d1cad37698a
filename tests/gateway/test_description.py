"""What REST says of itself, asked in every way that schemathesis thinks of: nothing makes it fail."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.gateway.served import ServedRest

EXAMPLES = 12  # of each operation


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_call_that_the_description_allows_or_forbids_makes_it_fail(sqlite_store: str) -> None:
    import schemathesis  # it takes long, and every process of a run would import it
    from schemathesis import checks

    kept: Any = [checks.not_a_server_error, checks.content_type_conformance, checks.response_schema_conformance]
    asked = 0
    with ServedRest(sqlite_store, settle_wait=1.0) as rest, requests.Session() as session:
        rest.store.log.create_topic("orders", partitions=2)
        rest.client.post("/groups", json={"name": "mailer", "topic": "orders"})
        schema = schemathesis.openapi.from_dict(rest.client.get("/openapi.json").json())
        for found in schema.get_all_operations():
            operation: Any = found.ok()  # type: ignore[union-attr]
            if operation.definition.raw["operationId"] == "tail":
                continue  # its answer never ends; see test_tailing
            modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
            cases = st.one_of([operation.as_strategy(generation_mode=each) for each in modes])

            @given(case=cases)
            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                if isinstance(case.body, dict) and "wait_seconds" in case.body:
                    case.body["wait_seconds"] = 0
                answer = case.call(base_url=f"http://127.0.0.1:{rest.port}", session=session, timeout=60)
                case.validate_response(answer, checks=kept)

            ask()
    assert asked > 300
