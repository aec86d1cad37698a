"""The configs of topics and brokers."""

from ..layout import BOOL, INT8, INT16, INT32, STRING, Api, ArrayOf, Field

DESCRIBE_CONFIGS = Api(
    32,
    "DescribeConfigs",
    versions=(1, 4),
    flexible_since=4,
    request=(
        Field(
            "resources",
            ArrayOf(
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field("configuration_keys", ArrayOf(STRING), null_since=0),
            ),
        ),
        Field("include_synonyms", BOOL),
        Field("include_documentation", BOOL, since=3),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "results",
            ArrayOf(
                Field("error_code", INT16),
                Field("error_message", STRING, null_since=0),
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field(
                    "configs",
                    ArrayOf(
                        Field("name", STRING),
                        Field("value", STRING, null_since=0),
                        Field("read_only", BOOL),
                        Field("config_source", INT8, default=-1),
                        Field("is_sensitive", BOOL),
                        Field(
                            "synonyms",
                            ArrayOf(
                                Field("name", STRING),
                                Field("value", STRING, null_since=0),
                                Field("source", INT8),
                            ),
                        ),
                        Field("config_type", INT8, since=3),
                        Field("documentation", STRING, since=3, null_since=0),
                    ),
                ),
            ),
        ),
    ),
)

ALTER_CONFIGS = Api(
    33,
    "AlterConfigs",
    versions=(0, 2),
    flexible_since=2,
    request=(
        Field(
            "resources",
            ArrayOf(
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field(
                    "configs",
                    ArrayOf(
                        Field("name", STRING),
                        Field("value", STRING, null_since=0),
                    ),
                ),
            ),
        ),
        Field("validate_only", BOOL),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "responses",
            ArrayOf(
                Field("error_code", INT16),
                Field("error_message", STRING, null_since=0),
                Field("resource_type", INT8),
                Field("resource_name", STRING),
            ),
        ),
    ),
)

INCREMENTAL_ALTER_CONFIGS = Api(
    44,
    "IncrementalAlterConfigs",
    versions=(0, 1),
    flexible_since=1,
    request=(
        Field(
            "resources",
            ArrayOf(
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field(
                    "configs",
                    ArrayOf(
                        Field("name", STRING),
                        Field("config_operation", INT8),
                        Field("value", STRING, null_since=0),
                    ),
                ),
            ),
        ),
        Field("validate_only", BOOL),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "responses",
            ArrayOf(
                Field("error_code", INT16),
                Field("error_message", STRING, null_since=0),
                Field("resource_type", INT8),
                Field("resource_name", STRING),
            ),
        ),
    ),
)
