"""The committed offsets of groups."""

from ..layout import BOOL, INT16, INT32, INT64, STRING, Api, ArrayOf, Field

OFFSET_COMMIT = Api(
    8,
    "OffsetCommit",
    versions=(2, 9),
    flexible_since=8,
    request=(
        Field("group_id", STRING),
        Field("generation_id_or_member_epoch", INT32, default=-1),
        Field("member_id", STRING),
        Field("group_instance_id", STRING, since=7, null_since=0, default=None),
        Field("retention_time_ms", INT64, until=4, default=-1),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                        Field("committed_offset", INT64),
                        Field("committed_leader_epoch", INT32, since=6, default=-1),
                        Field("committed_metadata", STRING, null_since=0),
                    ),
                ),
            ),
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=3),
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

OFFSET_FETCH = Api(
    9,
    "OffsetFetch",
    versions=(1, 9),
    flexible_since=6,
    request=(
        Field("group_id", STRING, until=7),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING, until=7),
                Field("partition_indexes", ArrayOf(INT32), until=7),
            ),
            until=7,
            null_since=2,
        ),
        Field(
            "groups",
            ArrayOf(
                Field("group_id", STRING),
                Field("member_id", STRING, since=9, null_since=0, default=None),
                Field("member_epoch", INT32, since=9, default=-1),
                Field(
                    "topics",
                    ArrayOf(
                        Field("name", STRING),
                        Field("partition_indexes", ArrayOf(INT32)),
                    ),
                    null_since=0,
                ),
            ),
            since=8,
        ),
        Field("require_stable", BOOL, since=7),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=3),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING, until=7),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32, until=7),
                        Field("committed_offset", INT64, until=7),
                        Field("committed_leader_epoch", INT32, since=5, until=7, default=-1),
                        Field("metadata", STRING, until=7, null_since=0),
                        Field("error_code", INT16, until=7),
                    ),
                    until=7,
                ),
            ),
            until=7,
        ),
        Field("error_code", INT16, since=2, until=7),
        Field(
            "groups",
            ArrayOf(
                Field("group_id", STRING),
                Field(
                    "topics",
                    ArrayOf(
                        Field("name", STRING),
                        Field(
                            "partitions",
                            ArrayOf(
                                Field("partition_index", INT32),
                                Field("committed_offset", INT64),
                                Field("committed_leader_epoch", INT32, default=-1),
                                Field("metadata", STRING, null_since=0),
                                Field("error_code", INT16),
                            ),
                        ),
                    ),
                ),
                Field("error_code", INT16),
            ),
            since=8,
        ),
    ),
)

OFFSET_DELETE = Api(
    47,
    "OffsetDelete",
    versions=(0, 0),
    flexible_since=None,
    request=(
        Field("group_id", STRING),
        Field(
            "topics",
            ArrayOf(
                Field("name", STRING),
                Field(
                    "partitions",
                    ArrayOf(
                        Field("partition_index", INT32),
                    ),
                ),
            ),
        ),
    ),
    answer=(
        Field("error_code", INT16),
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
