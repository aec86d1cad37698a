"""Consumer groups: joining, assignment, leaving."""

from ..layout import BOOL, BYTES, INT16, INT32, STRING, Api, ArrayOf, Field

JOIN_GROUP = Api(
    11,
    "JoinGroup",
    versions=(0, 9),
    flexible_since=6,
    request=(
        Field("group_id", STRING),
        Field("session_timeout_ms", INT32),
        Field("rebalance_timeout_ms", INT32, since=1, default=-1),
        Field("member_id", STRING),
        Field("group_instance_id", STRING, since=5, null_since=0, default=None),
        Field("protocol_type", STRING),
        Field(
            "protocols",
            ArrayOf(
                Field("name", STRING),
                Field("metadata", BYTES),
            ),
        ),
        Field("reason", STRING, since=8, null_since=0, default=None),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=2),
        Field("error_code", INT16),
        Field("generation_id", INT32, default=-1),
        Field("protocol_type", STRING, since=7, null_since=0, default=None),
        Field("protocol_name", STRING, null_since=7),
        Field("leader", STRING),
        Field("skip_assignment", BOOL, since=9),
        Field("member_id", STRING),
        Field(
            "members",
            ArrayOf(
                Field("member_id", STRING),
                Field("group_instance_id", STRING, since=5, null_since=0, default=None),
                Field("metadata", BYTES),
            ),
        ),
    ),
)

SYNC_GROUP = Api(
    14,
    "SyncGroup",
    versions=(0, 5),
    flexible_since=4,
    request=(
        Field("group_id", STRING),
        Field("generation_id", INT32),
        Field("member_id", STRING),
        Field("group_instance_id", STRING, since=3, null_since=0, default=None),
        Field("protocol_type", STRING, since=5, null_since=0, default=None),
        Field("protocol_name", STRING, since=5, null_since=0, default=None),
        Field(
            "assignments",
            ArrayOf(
                Field("member_id", STRING),
                Field("assignment", BYTES),
            ),
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
        Field("protocol_type", STRING, since=5, null_since=0, default=None),
        Field("protocol_name", STRING, since=5, null_since=0, default=None),
        Field("assignment", BYTES),
    ),
)

HEARTBEAT = Api(
    12,
    "Heartbeat",
    versions=(0, 4),
    flexible_since=4,
    request=(
        Field("group_id", STRING),
        Field("generation_id", INT32),
        Field("member_id", STRING),
        Field("group_instance_id", STRING, since=3, null_since=0, default=None),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
    ),
)

LEAVE_GROUP = Api(
    13,
    "LeaveGroup",
    versions=(0, 5),
    flexible_since=4,
    request=(
        Field("group_id", STRING),
        Field("member_id", STRING, until=2),
        Field(
            "members",
            ArrayOf(
                Field("member_id", STRING),
                Field("group_instance_id", STRING, null_since=0, default=None),
                Field("reason", STRING, since=5, null_since=0, default=None),
            ),
            since=3,
        ),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
        Field(
            "members",
            ArrayOf(
                Field("member_id", STRING),
                Field("group_instance_id", STRING, null_since=0),
                Field("error_code", INT16),
            ),
            since=3,
        ),
    ),
)

DESCRIBE_GROUPS = Api(
    15,
    "DescribeGroups",
    versions=(0, 5),
    flexible_since=5,
    request=(
        Field("groups", ArrayOf(STRING)),
        Field("include_authorized_operations", BOOL, since=3),
    ),
    answer=(
        Field("throttle_time_ms", INT32, since=1),
        Field(
            "groups",
            ArrayOf(
                Field("error_code", INT16),
                Field("group_id", STRING),
                Field("group_state", STRING),
                Field("protocol_type", STRING),
                Field("protocol_data", STRING),
                Field(
                    "members",
                    ArrayOf(
                        Field("member_id", STRING),
                        Field("group_instance_id", STRING, since=4, null_since=0, default=None),
                        Field("client_id", STRING),
                        Field("client_host", STRING),
                        Field("member_metadata", BYTES),
                        Field("member_assignment", BYTES),
                    ),
                ),
                Field("authorized_operations", INT32, since=3, default=-2147483648),
            ),
        ),
    ),
)

LIST_GROUPS = Api(
    16,
    "ListGroups",
    versions=(0, 4),
    flexible_since=3,
    request=(Field("states_filter", ArrayOf(STRING), since=4),),
    answer=(
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
        Field(
            "groups",
            ArrayOf(
                Field("group_id", STRING),
                Field("protocol_type", STRING),
                Field("group_state", STRING, since=4),
            ),
        ),
    ),
)

DELETE_GROUPS = Api(
    42,
    "DeleteGroups",
    versions=(0, 2),
    flexible_since=2,
    request=(Field("groups_names", ArrayOf(STRING)),),
    answer=(
        Field("throttle_time_ms", INT32),
        Field(
            "results",
            ArrayOf(
                Field("group_id", STRING),
                Field("error_code", INT16),
            ),
        ),
    ),
)
