"""Producing and fetching records, and looking up their offsets."""

from ..layout import INT8, INT16, INT32, INT64, RECORDS, STRING, Api, ArrayOf, Field, StructOf

PRODUCE = Api(
    0,
    "Produce",
    versions=(0, 10),
    flexible_since=9,
    request=(
        Field("transactional_id", STRING, since=3, null_since=0, default=None),
        Field("acks", INT16),
        Field("timeout_ms", INT32),
        Field(
            "topic_data",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partition_data",
                    ArrayOf(
                        Field("index", INT32),
                        Field("records", RECORDS, null_since=0),
                    ),
                ),
            ),
        ),
    ),
    answer=(
        Field(
            "responses",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partition_responses",
                    ArrayOf(
                        Field("index", INT32),
                        Field("error_code", INT16),
                        Field("base_offset", INT64),
                        Field("log_append_time_ms", INT64, since=2, default=-1),
                        Field("log_start_offset", INT64, since=5, default=-1),
                        Field(
                            "record_errors",
                            ArrayOf(
                                Field("batch_index", INT32),
                                Field("batch_index_error_message", STRING, null_since=0, default=None),
                            ),
                            since=8,
                        ),
                        Field("error_message", STRING, since=8, null_since=0, default=None),
                        Field(
                            "current_leader",
                            StructOf(
                                Field("leader_id", INT32, default=-1),
                                Field("leader_epoch", INT32, default=-1),
                            ),
                            since=10,
                            tag=0,
                        ),
                    ),
                ),
            ),
        ),
        Field("throttle_time_ms", INT32, since=1),
        Field(
            "node_endpoints",
            ArrayOf(
                Field("node_id", INT32),
                Field("host", STRING),
                Field("port", INT32),
                Field("rack", STRING, null_since=0, default=None),
            ),
            since=10,
            tag=0,
        ),
    ),
)

FETCH = Api(
    1,
    "Fetch",
    versions=(4, 12),
    flexible_since=12,
    request=(
        Field("cluster_id", STRING, since=12, null_since=0, tag=0, default=None),
        Field("replica_id", INT32, default=-1),
        Field("max_wait_ms", INT32),
        Field("min_bytes", INT32),
        Field("max_bytes", INT32, default=2147483647),
        Field("isolation_level", INT8),
        Field("session_id", INT32, since=7),
        Field("session_epoch", INT32, since=7, default=-1),
        Field(
            "topics",
            ArrayOf(
                Field("topic", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition", INT32),
                        Field("current_leader_epoch", INT32, since=9, default=-1),
                        Field("fetch_offset", INT64),
                        Field("last_fetched_epoch", INT32, since=12, default=-1),
                        Field("log_start_offset", INT64, since=5, default=-1),
                        Field("partition_max_bytes", INT32),
                    ),
                ),
            ),
        ),
        Field(
            "forgotten_topics_data",
            ArrayOf(
                Field("topic", STRING),
                Field("partitions", ArrayOf(INT32)),
            ),
            since=7,
        ),
        Field("rack_id", STRING, since=11),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16, since=7),
        Field("session_id", INT32, since=7),
        Field(
            "responses",
            ArrayOf(
                Field("topic", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("error_code", INT16),
                        Field("high_watermark", INT64),
                        Field("last_stable_offset", INT64, default=-1),
                        Field("log_start_offset", INT64, since=5, default=-1),
                        Field(
                            "diverging_epoch",
                            StructOf(
                                Field("epoch", INT32, default=-1),
                                Field("end_offset", INT64, default=-1),
                            ),
                            since=12,
                            tag=0,
                        ),
                        Field(
                            "current_leader",
                            StructOf(
                                Field("leader_id", INT32, default=-1),
                                Field("leader_epoch", INT32, default=-1),
                            ),
                            since=12,
                            tag=1,
                        ),
                        Field(
                            "snapshot_id",
                            StructOf(
                                Field("end_offset", INT64, default=-1),
                                Field("epoch", INT32, default=-1),
                            ),
                            since=12,
                            tag=2,
                        ),
                        Field(
                            "aborted_transactions",
                            ArrayOf(
                                Field("producer_id", INT64),
                                Field("first_offset", INT64),
                            ),
                            null_since=0,
                        ),
                        Field("preferred_read_replica", INT32, since=11, default=-1),
                        Field("records", RECORDS, null_since=0),
                    ),
                ),
            ),
        ),
    ),
)

LIST_OFFSETS = Api(
    2,
    "ListOffsets",
    versions=(1, 9),
    flexible_since=6,
    request=(
        Field("replica_id", INT32),
        Field("isolation_level", INT8, since=2),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("current_leader_epoch", INT32, since=4, default=-1),
                        Field("timestamp", INT64),
                    ),
                ),
            ),
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=2),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("error_code", INT16),
                        Field("timestamp", INT64, default=-1),
                        Field("offset", INT64, default=-1),
                        Field("leader_epoch", INT32, since=4, default=-1),
                    ),
                ),
            ),
        ),
    ),
)

OFFSET_FOR_LEADER_EPOCH = Api(
    23,
    "OffsetForLeaderEpoch",
    versions=(2, 4),
    flexible_since=4,
    request=(
        Field("replica_id", INT32, since=3, default=-2),
        Field(
            "topics",
            ArrayOf(
                Field("topic", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition", INT32),
                        Field("current_leader_epoch", INT32, default=-1),
                        Field("leader_epoch", INT32),
                    ),
                ),
            ),
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "topics",
            ArrayOf(
                Field("topic", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("error_code", INT16),
                        Field("partition", INT32),
                        Field("leader_epoch", INT32, default=-1),
                        Field("end_offset", INT64, default=-1),
                    ),
                ),
            ),
        ),
    ),
)

DELETE_RECORDS = Api(
    21,
    "DeleteRecords",
    versions=(0, 2),
    flexible_since=2,
    request=(
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("offset", INT64),
                    ),
                ),
            ),
        ),
        Field("timeout_ms", INT32),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("low_watermark", INT64),
                        Field("error_code", INT16),
                    ),
                ),
            ),
        ),
    ),
)

DESCRIBE_PRODUCERS = Api(
    61,
    "DescribeProducers",
    versions=(0, 0),
    flexible_since=0,
    request=(
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field("partition_indexes", ArrayOf(INT32)),
            ),
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("error_code", INT16),
                        Field("error_message", STRING, null_since=0, default=None),
                        Field(
                            "active_producers",
                            ArrayOf(
                                Field("producer_id", INT64),
                                Field("producer_epoch", INT32),
                                Field("last_sequence", INT32, default=-1),
                                Field("last_timestamp", INT64, default=-1),
                                Field("coordinator_epoch", INT32),
                                Field("current_txn_start_offset", INT64, default=-1),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
)
