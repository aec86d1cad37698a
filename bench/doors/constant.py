"""The same framework as the REST door's, answering a constant: `python -m bench.doors.constant PORT`."""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_SAID = b'{"records":[{"partition":6,"offset":0,"id":"01a8f3c0-0000-7000-8000-000000000000"}]}'


async def answer(request: Request) -> Response:
    """Read the body, and say the same as ever."""
    await request.body()
    return Response(_SAID, 201, media_type="application/json")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/v1/topics/{topic}/records", answer, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False, log_level="warning")
