"""From an error's code to the exit code of a command: the command line's own table.

0 ok, 1 differs or failed, 2 usage, 3 the store cannot be reached; 130 stopped by Ctrl-C.
"""

from penstock.errors import Error

FAILED, USAGE, UNREACHABLE = 1, 2, 3

EXIT_CODES = {
    "error": FAILED,
    "invalid_input": USAGE,
    "invalid_type": USAGE,
    "invalid_key": USAGE,
    "invalid_topic": USAGE,
    "invalid_headers": USAGE,
    "invalid_owner": USAGE,
    "invalid_time": USAGE,
    "invalid_value": USAGE,
    "value_too_large": USAGE,
    "invalid_partitions": USAGE,
    "invalid_policy": USAGE,
    "invalid_outcome": FAILED,
    "invalid_envelope": USAGE,
    "invalid_url": USAGE,
    "invalid_name": USAGE,
    "invalid_page": USAGE,
    "invalid_selection": USAGE,
    "event_type": USAGE,
    "not_an_event_class": USAGE,
    "event_name_taken": USAGE,
    "unregistered_event": USAGE,
    "undecodable": FAILED,
    "connection_refused": USAGE,
    "unsupported_connection": USAGE,
    "no_transaction": USAGE,
    "schema": FAILED,
    "schema_missing": FAILED,
    "no_such_schema": FAILED,
    "schema_behind": FAILED,
    "schema_too_new": FAILED,
    "sequence_cached": FAILED,
    "store": FAILED,
    "store_unreachable": UNREACHABLE,
    "store_full": FAILED,
    "store_read_only": FAILED,
    "store_unsupported": FAILED,
    "log": FAILED,
    "unknown_topic": FAILED,
    "unknown_partition": FAILED,
    "partitions_differ": FAILED,
    "offset_out_of_range": FAILED,
    "topic_vanished": FAILED,
    "group": FAILED,
    "unknown_group": FAILED,
    "unknown_dead_letter": FAILED,
    "setting": USAGE,
    "unknown_setting": USAGE,
    "wrong_setting_type": USAGE,
    "setting_out_of_range": USAGE,
    "settings_file_unreadable": USAGE,
    "missing_extra": FAILED,
    "handler": USAGE,
    "invalid_handler": USAGE,
    "duplicate_handler": USAGE,
    "handler_timeout": FAILED,
    "pipeline": FAILED,
    "no_java": FAILED,
    "spark_not_started": FAILED,
    "invalid_option": USAGE,
    "invalid_pipeline": USAGE,
    "records_removed": FAILED,
    "ranges_differ": FAILED,
    "state_without_past": FAILED,
    "table_differs": FAILED,
    "pipeline_failed": FAILED,
    "pick_changed": FAILED,
    "unknown_point": USAGE,
}


def exit_code(error: Error) -> int:
    """Return the exit code that an error means."""
    return EXIT_CODES[error.code]
