"""The committed offsets of groups."""

from ..layout import api

OFFSET_COMMIT = api("""
    8 OffsetCommit 2-9 flexible:8
    request
      group_id string
      generation_id_or_member_epoch int32 =-1
      member_id string
      group_instance_id string 7+ null =None
      retention_time_ms int64 0-4 =-1
      topics []
        name string
        partitions []
          partition_index int32
          committed_offset int64
          committed_leader_epoch int32 6+ =-1
          committed_metadata string null
    answer
      throttle_time_ms int32 3+
      topics []
        name string
        partitions []
          partition_index int32
          error_code int16
""")

OFFSET_FETCH = api("""
    9 OffsetFetch 1-9 flexible:6
    request
      group_id string 0-7
      topics [] 0-7 null:2
        name string 0-7
        partition_indexes []int32 0-7
      groups [] 8+
        group_id string
        member_id string 9+ null =None
        member_epoch int32 9+ =-1
        topics [] null
          name string
          partition_indexes []int32
      require_stable bool 7+
    answer
      throttle_time_ms int32 3+
      topics [] 0-7
        name string 0-7
        partitions [] 0-7
          partition_index int32 0-7
          committed_offset int64 0-7
          committed_leader_epoch int32 5-7 =-1
          metadata string 0-7 null
          error_code int16 0-7
      error_code int16 2-7
      groups [] 8+
        group_id string
        topics []
          name string
          partitions []
            partition_index int32
            committed_offset int64
            committed_leader_epoch int32 =-1
            metadata string null
            error_code int16
        error_code int16
""")

OFFSET_DELETE = api("""
    47 OffsetDelete 0-0
    request
      group_id string
      topics []
        name string
        partitions []
          partition_index int32
    answer
      error_code int16
      throttle_time_ms int32
      topics []
        name string
        partitions []
          partition_index int32
          error_code int16
""")
