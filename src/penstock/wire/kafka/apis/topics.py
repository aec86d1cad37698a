"""Topics: listing, creating, deleting and growing them."""

from ..layout import BOOL, INT8, INT16, INT32, STRING, UUID_, Api, ArrayOf, Field

METADATA = Api(
    3,
    "Metadata",
    versions=(0, 12),
    flexible_since=9,
    request=(
        Field(
            "topics",
            ArrayOf(
                Field("topic_id", UUID_, since=10),
                Field("name", STRING, null_since=10),
            ),
            null_since=1,
        ),
        Field("allow_auto_topic_creation", BOOL, since=4, default=True),
        Field("include_cluster_authorized_operations", BOOL, since=8, until=10),
        Field("include_topic_authorized_operations", BOOL, since=8),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=3),
        Field(
            "brokers",
            ArrayOf(
                Field("node_id", INT32),
                Field("host", STRING),
                Field("port", INT32),
                Field("rack", STRING, since=1, null_since=0, default=None),
            ),
        ),
        Field("cluster_id", STRING, since=2, null_since=0, default=None),
        Field("controller_id", INT32, since=1, default=-1),
        Field(
            "topics",
            ArrayOf(
                Field("error_code", INT16),
                Field("name", STRING, null_since=12),
                Field("topic_id", UUID_, since=10),
                Field("is_internal", BOOL, since=1),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("error_code", INT16),
                        Field("partition_index", INT32),
                        Field("leader_id", INT32),
                        Field("leader_epoch", INT32, since=7, default=-1),
                        Field("replica_nodes", ArrayOf(INT32)),
                        Field("isr_nodes", ArrayOf(INT32)),
                        Field("offline_replicas", ArrayOf(INT32), since=5),
                    ),
                ),
                Field("topic_authorized_operations", INT32, since=8, default=-2147483648),
            ),
        ),
        Field("cluster_authorized_operations", INT32, since=8, until=10, default=-2147483648),
    ),
)

CREATE_TOPICS = Api(
    19,
    "CreateTopics",
    versions=(2, 7),
    flexible_since=5,
    request=(
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field("num_partitions", INT32),
                Field("replication_factor", INT16),
                Field(
                    "assignments",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("broker_ids", ArrayOf(INT32)),
                    ),
                ),
                Field(
                    "configs",
                    ArrayOf(
                        Field("name", STRING),
                        Field("value", STRING, null_since=0),
                    ),
                ),
            ),
        ),
        Field("timeout_ms", INT32, default=60000),
        Field("validate_only", BOOL),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field("topic_id", UUID_, since=7),
                Field("error_code", INT16),
                Field("error_message", STRING, null_since=0),
                Field("topic_config_error_code", INT16, since=5, tag=0),
                Field("num_partitions", INT32, since=5, default=-1),
                Field("replication_factor", INT16, since=5, default=-1),
                Field(
                    "configs",
                    ArrayOf(
                        Field("name", STRING),
                        Field("value", STRING, null_since=0),
                        Field("read_only", BOOL),
                        Field("config_source", INT8, default=-1),
                        Field("is_sensitive", BOOL),
                    ),
                    since=5,
                    null_since=0,
                ),
            ),
        ),
    ),
)

DELETE_TOPICS = Api(
    20,
    "DeleteTopics",
    versions=(1, 6),
    flexible_since=4,
    request=(
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING, null_since=0, default=None),
                Field("topic_id", UUID_),
            ),
            since=6,
        ),
        Field("topic_names", ArrayOf(STRING), until=5),
        Field("timeout_ms", INT32),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "responses",
            ArrayOf(
                Field("name", STRING, null_since=6),
                Field("topic_id", UUID_, since=6),
                Field("error_code", INT16),
                Field("error_message", STRING, since=5, null_since=0, default=None),
            ),
        ),
    ),
)

CREATE_PARTITIONS = Api(
    37,
    "CreatePartitions",
    versions=(0, 3),
    flexible_since=2,
    request=(
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field("count", INT32),
                Field(
                    "assignments",
                    ArrayOf(
                        Field("broker_ids", ArrayOf(INT32)),
                    ),
                    null_since=0,
                ),
            ),
        ),
        Field("timeout_ms", INT32),
        Field("validate_only", BOOL),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "results",
            ArrayOf(
                Field("name", STRING),
                Field("error_code", INT16),
                Field("error_message", STRING, null_since=0, default=None),
            ),
        ),
    ),
)
