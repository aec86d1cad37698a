"""The exit code of each error.

0 ok, 1 differs or failed, 2 usage, 3 the store is missing or locked or out of reach, 130 stopped by Ctrl-C.
"""

from penstock import errors as e
from penstock.errors import Error
from penstock.errors.base import ErrorTable

FAILED, USAGE, UNREACHABLE = 1, 2, 3

EXIT_CODES = ErrorTable(
    lambda cls: FAILED,
    {
        USAGE: (
            e.InvalidInput,
            e.InvalidGrowth,
            e.InvalidConfig,
            e.InvalidSchedule,
            e.EventTypeError,
            e.ConnectionRefused,
            e.SettingError,
            e.AccessError,
            e.HandlerError,
            e.InvalidOption,
            e.InvalidPipeline,
            e.InvalidColumn,
            e.NoColumns,
            e.UnknownPoint,
        ),
        UNREACHABLE: (
            e.StoreMissing,
            e.StoreUnreachable,
            e.StoreLocked,
            e.StorageAway,
            e.CatalogAway,
            e.PipelineInterrupted,
        ),
        FAILED: (
            e.InvalidOutcome,
            e.UnknownRule,
            e.LeftOpen,
            e.HandlerTimeout,
            e.NotTransactional,
            e.TransactionEnded,
            e.SessionEnded,
            e.GroupsGivenUp,
        ),
    },
)


def exit_code(error: Error) -> int:
    """Return the exit code of an error."""
    return EXIT_CODES.of(type(error))
