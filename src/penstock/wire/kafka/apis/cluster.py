"""The cluster: versions, brokers, coordinators."""

from ..layout import BOOL, INT8, INT16, INT32, INT64, STRING, Api, ArrayOf, Field

API_VERSIONS = Api(
    18,
    "ApiVersions",
    versions=(0, 4),
    flexible_since=3,
    request=(
        Field("client_software_name", STRING, since=3),
        Field("client_software_version", STRING, since=3),
    ),
    answer=(
        Field("error_code", INT16),
        Field(
            "api_keys",
            ArrayOf(
                Field("api_key", INT16),
                Field("min_version", INT16),
                Field("max_version", INT16),
            ),
        ),
        Field("throttle_time_ms", INT32, since=1),
        Field(
            "supported_features",
            ArrayOf(
                Field("name", STRING),
                Field("min_version", INT16),
                Field("max_version", INT16),
            ),
            since=3,
            tag=0,
        ),
        Field("finalized_features_epoch", INT64, since=3, tag=1, default=-1),
        Field(
            "finalized_features",
            ArrayOf(
                Field("name", STRING),
                Field("max_version_level", INT16),
                Field("min_version_level", INT16),
            ),
            since=3,
            tag=2,
        ),
        Field("zk_migration_ready", BOOL, since=3, tag=3),
    ),
)

DESCRIBE_CLUSTER = Api(
    60,
    "DescribeCluster",
    versions=(0, 1),
    flexible_since=0,
    request=(
        Field("include_cluster_authorized_operations", BOOL),
        Field("endpoint_type", INT8, since=1, default=1),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", STRING, null_since=0, default=None),
        Field("endpoint_type", INT8, since=1, default=1),
        Field("cluster_id", STRING),
        Field("controller_id", INT32, default=-1),
        Field(
            "brokers",
            ArrayOf(
                Field("broker_id", INT32),
                Field("host", STRING),
                Field("port", INT32),
                Field("rack", STRING, null_since=0, default=None),
            ),
        ),
        Field("cluster_authorized_operations", INT32, default=-2147483648),
    ),
)

FIND_COORDINATOR = Api(
    10,
    "FindCoordinator",
    versions=(0, 5),
    flexible_since=3,
    request=(
        Field("key", STRING, until=3),
        Field("key_type", INT8, since=1),
        Field("coordinator_keys", ArrayOf(STRING), since=4),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16, until=3),
        Field("error_message", STRING, since=1, until=3, null_since=0),
        Field("node_id", INT32, until=3),
        Field("host", STRING, until=3),
        Field("port", INT32, until=3),
        Field(
            "coordinators",
            ArrayOf(
                Field("key", STRING),
                Field("node_id", INT32),
                Field("host", STRING),
                Field("port", INT32),
                Field("error_code", INT16),
                Field("error_message", STRING, null_since=0),
            ),
            since=4,
        ),
    ),
)
