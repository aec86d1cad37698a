"""From an error to a gRPC status: by its HTTP status, so that both doors agree."""

import grpc

from penstock.errors import Error

from ..statuses import status_of

C = grpc.StatusCode

CODES: dict[int, grpc.StatusCode] = {
    400: C.INVALID_ARGUMENT,
    401: C.UNAUTHENTICATED,
    403: C.PERMISSION_DENIED,
    404: C.NOT_FOUND,
    408: C.DEADLINE_EXCEEDED,
    409: C.FAILED_PRECONDITION,
    413: C.INVALID_ARGUMENT,  # not RESOURCE_EXHAUSTED: it will never fit
    415: C.INVALID_ARGUMENT,
    416: C.OUT_OF_RANGE,
    421: C.PERMISSION_DENIED,
    422: C.FAILED_PRECONDITION,
    429: C.RESOURCE_EXHAUSTED,
    500: C.INTERNAL,
    503: C.UNAVAILABLE,
}


def code_of(error: Error) -> grpc.StatusCode:
    """Return the gRPC status of an error."""
    return CODES[status_of(error)]
