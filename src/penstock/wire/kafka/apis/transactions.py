"""Idempotent producers and transactions."""

from ..layout import BOOL, INT16, INT32, INT64, STRING, Api, ArrayOf, Field

INIT_PRODUCER_ID = Api(
    22,
    "InitProducerId",
    versions=(0, 4),
    flexible_since=2,
    request=(
        Field("transactional_id", STRING, null_since=0),
        Field("transaction_timeout_ms", INT32),
        Field("producer_id", INT64, since=3, default=-1),
        Field("producer_epoch", INT16, since=3, default=-1),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("producer_id", INT64, default=-1),
        Field("producer_epoch", INT16),
    ),
)

ADD_PARTITIONS_TO_TXN = Api(
    24,
    "AddPartitionsToTxn",
    versions=(0, 3),
    flexible_since=3,
    request=(
        Field("v3_and_below_transactional_id", STRING),
        Field("v3_and_below_producer_id", INT64),
        Field("v3_and_below_producer_epoch", INT16),
        Field(
            "v3_and_below_topics",
            ArrayOf(
                Field("name", STRING),
                Field("partitions", ArrayOf(INT32)),
            ),
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "results_by_topic_v3_and_below",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "results_by_partition",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("partition_error_code", INT16),
                    ),
                ),
            ),
        ),
    ),
)

ADD_OFFSETS_TO_TXN = Api(
    25,
    "AddOffsetsToTxn",
    versions=(0, 3),
    flexible_since=3,
    request=(
        Field("transactional_id", STRING),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("group_id", STRING),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
    ),
)

END_TXN = Api(
    26,
    "EndTxn",
    versions=(0, 3),
    flexible_since=3,
    request=(
        Field("transactional_id", STRING),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("committed", BOOL),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
    ),
)

TXN_OFFSET_COMMIT = Api(
    28,
    "TxnOffsetCommit",
    versions=(0, 3),
    flexible_since=3,
    request=(
        Field("transactional_id", STRING),
        Field("group_id", STRING),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("generation_id", INT32, since=3, default=-1),
        Field("member_id", STRING, since=3),
        Field("group_instance_id", STRING, since=3, null_since=0, default=None),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("committed_offset", INT64),
                        Field("committed_leader_epoch", INT32, since=2, default=-1),
                        Field("committed_metadata", STRING, null_since=0),
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
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("error_code", INT16),
                    ),
                ),
            ),
        ),
    ),
)

LIST_TRANSACTIONS = Api(
    66,
    "ListTransactions",
    versions=(0, 1),
    flexible_since=0,
    request=(
        Field("state_filters", ArrayOf(STRING)),
        Field("producer_id_filters", ArrayOf(INT64)),
        Field("duration_filter", INT64, since=1, default=-1),
    ),
    answer=(
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("unknown_state_filters", ArrayOf(STRING)),
        Field(
            "transaction_states",
            ArrayOf(
                Field("transactional_id", STRING),
                Field("producer_id", INT64),
                Field("transaction_state", STRING),
            ),
        ),
    ),
)
