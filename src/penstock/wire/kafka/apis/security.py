"""Authentication (SASL) and access rules (ACLs)."""

from ..layout import BYTES, INT8, INT16, INT32, INT64, STRING, Api, ArrayOf, Field

SASL_HANDSHAKE = Api(
    17,
    "SaslHandshake",
    versions=(0, 1),
    flexible_since=None,
    request=(Field("mechanism", STRING),),
    answer=(
        Field("error_code", INT16),
        Field("mechanisms", ArrayOf(STRING)),
    ),
)

SASL_AUTHENTICATE = Api(
    36,
    "SaslAuthenticate",
    versions=(0, 2),
    flexible_since=2,
    request=(Field("auth_bytes", BYTES),),
    answer=(
        Field("error_code", INT16),
        Field("error_message", STRING, null_since=0, default=None),
        Field("auth_bytes", BYTES),
        Field("session_lifetime_ms", INT64, since=1),
    ),
)

DESCRIBE_ACLS = Api(
    29,
    "DescribeAcls",
    versions=(1, 3),
    flexible_since=2,
    request=(
        Field("resource_type_filter", INT8),
        Field("resource_name_filter", STRING, null_since=0, default=None),
        Field("pattern_type_filter", INT8, since=1, default=3),
        Field("principal_filter", STRING, null_since=0, default=None),
        Field("host_filter", STRING, null_since=0, default=None),
        Field("operation", INT8),
        Field("permission_type", INT8),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", STRING, null_since=0, default=None),
        Field(
            "resources",
            ArrayOf(
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field("pattern_type", INT8, since=1, default=3),
                Field(
                    "acls",
                    ArrayOf(
                        Field("principal", STRING),
                        Field("host", STRING),
                        Field("operation", INT8),
                        Field("permission_type", INT8),
                    ),
                ),
            ),
        ),
    ),
)

CREATE_ACLS = Api(
    30,
    "CreateAcls",
    versions=(1, 3),
    flexible_since=2,
    request=(
        Field(
            "creations",
            ArrayOf(
                Field("resource_type", INT8),
                Field("resource_name", STRING),
                Field("resource_pattern_type", INT8, since=1, default=3),
                Field("principal", STRING),
                Field("host", STRING),
                Field("operation", INT8),
                Field("permission_type", INT8),
            ),
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "results",
            ArrayOf(
                Field("error_code", INT16),
                Field("error_message", STRING, null_since=0, default=None),
            ),
        ),
    ),
)

DELETE_ACLS = Api(
    31,
    "DeleteAcls",
    versions=(1, 3),
    flexible_since=2,
    request=(
        Field(
            "filters",
            ArrayOf(
                Field("resource_type_filter", INT8),
                Field("resource_name_filter", STRING, null_since=0, default=None),
                Field("pattern_type_filter", INT8, since=1, default=3),
                Field("principal_filter", STRING, null_since=0, default=None),
                Field("host_filter", STRING, null_since=0, default=None),
                Field("operation", INT8),
                Field("permission_type", INT8),
            ),
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "filter_results",
            ArrayOf(
                Field("error_code", INT16),
                Field("error_message", STRING, null_since=0, default=None),
                Field(
                    "matching_acls",
                    ArrayOf(
                        Field("error_code", INT16),
                        Field("error_message", STRING, null_since=0, default=None),
                        Field("resource_type", INT8),
                        Field("resource_name", STRING),
                        Field("pattern_type", INT8, since=1, default=3),
                        Field("principal", STRING),
                        Field("host", STRING),
                        Field("operation", INT8),
                        Field("permission_type", INT8),
                    ),
                ),
            ),
        ),
    ),
)
