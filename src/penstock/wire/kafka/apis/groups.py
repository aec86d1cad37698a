"""Consumer groups: joining, assignment, leaving, and their committed offsets."""

from ..layout import api

JOIN_GROUP = api("""
    11 JoinGroup 0-9 flexible:6
    request
      group_id string, session_timeout_ms int32, rebalance_timeout_ms int32 1+ =-1, member_id string
      group_instance_id string 5+ null =None, protocol_type string
      protocols []: name string, metadata bytes
      reason string 8+ null =None
    answer
      throttle_time_ms int32 2+, error_code int16, generation_id int32 =-1
      protocol_type string 7+ null =None, protocol_name string null:7, leader string
      skip_assignment bool 9+, member_id string
      members []: member_id string, group_instance_id string 5+ null =None, metadata bytes
""")

SYNC_GROUP = api("""
    14 SyncGroup 0-5 flexible:4
    request
      group_id string, generation_id int32, member_id string, group_instance_id string 3+ null =None
      protocol_type string 5+ null =None, protocol_name string 5+ null =None
      assignments []: member_id string, assignment bytes
    answer
      throttle_time_ms int32 1+, error_code int16, protocol_type string 5+ null =None
      protocol_name string 5+ null =None, assignment bytes
""")

HEARTBEAT = api("""
    12 Heartbeat 0-4 flexible:4
    request
      group_id string, generation_id int32, member_id string, group_instance_id string 3+ null =None
    answer
      throttle_time_ms int32 1+, error_code int16
""")

LEAVE_GROUP = api("""
    13 LeaveGroup 0-5 flexible:4
    request
      group_id string, member_id string 0-2
      members [] 3+: member_id string, group_instance_id string null =None, reason string 5+ null =None
    answer
      throttle_time_ms int32 1+, error_code int16
      members [] 3+: member_id string, group_instance_id string null, error_code int16
""")

DESCRIBE_GROUPS = api("""
    15 DescribeGroups 0-5 flexible:5
    request
      groups []string, include_authorized_operations bool 3+
    answer
      throttle_time_ms int32 1+
      groups []
        error_code int16, group_id string, group_state string, protocol_type string, protocol_data string
        members []
          member_id string, group_instance_id string 4+ null =None, client_id string, client_host string
          member_metadata bytes, member_assignment bytes
        authorized_operations int32 3+ =-2147483648
""")

LIST_GROUPS = api("""
    16 ListGroups 0-4 flexible:3
    request
      states_filter []string 4+
    answer
      throttle_time_ms int32 1+, error_code int16
      groups []: group_id string, protocol_type string, group_state string 4+
""")

DELETE_GROUPS = api("""
    42 DeleteGroups 0-2 flexible:2
    request
      groups_names []string
    answer
      throttle_time_ms int32
      results []: group_id string, error_code int16
""")

OFFSET_COMMIT = api("""
    8 OffsetCommit 2-9 flexible:8
    request
      group_id string, generation_id_or_member_epoch int32 =-1, member_id string
      group_instance_id string 7+ null =None, retention_time_ms int64 0-4 =-1
      topics []
        name string
        partitions []
          partition_index int32, committed_offset int64, committed_leader_epoch int32 6+ =-1
          committed_metadata string null
    answer
      throttle_time_ms int32 3+
      topics []
        name string
        partitions []: partition_index int32, error_code int16
""")

OFFSET_FETCH = api("""
    9 OffsetFetch 1-9 flexible:6
    request
      group_id string 0-7
      topics [] 0-7 null:2: name string 0-7, partition_indexes []int32 0-7
      groups [] 8+
        group_id string, member_id string 9+ null =None, member_epoch int32 9+ =-1
        topics [] null: name string, partition_indexes []int32
      require_stable bool 7+
    answer
      throttle_time_ms int32 3+
      topics [] 0-7
        name string 0-7
        partitions [] 0-7
          partition_index int32 0-7, committed_offset int64 0-7, committed_leader_epoch int32 5-7 =-1
          metadata string 0-7 null, error_code int16 0-7
      error_code int16 2-7
      groups [] 8+
        group_id string
        topics []
          name string
          partitions []
            partition_index int32, committed_offset int64, committed_leader_epoch int32 =-1
            metadata string null, error_code int16
        error_code int16
""")

OFFSET_DELETE = api("""
    47 OffsetDelete 0-0
    request
      group_id string
      topics []
        name string
        partitions []: partition_index int32
    answer
      error_code int16, throttle_time_ms int32
      topics []
        name string
        partitions []: partition_index int32, error_code int16
""")
