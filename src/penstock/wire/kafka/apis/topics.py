"""Topics: listing, creating, deleting and growing them."""

from ..layout import api

METADATA = api("""
    3 Metadata 0-12 flexible:9
    request
      topics [] null:1
        topic_id uuid 10+
        name string null:10
      allow_auto_topic_creation bool 4+ =True
      include_cluster_authorized_operations bool 8-10
      include_topic_authorized_operations bool 8+
    answer
      throttle_time_ms int32 3+
      brokers []
        node_id int32
        host string
        port int32
        rack string 1+ null =None
      cluster_id string 2+ null =None
      controller_id int32 1+ =-1
      topics []
        error_code int16
        name string null:12
        topic_id uuid 10+
        is_internal bool 1+
        partitions []
          error_code int16
          partition_index int32
          leader_id int32
          leader_epoch int32 7+ =-1
          replica_nodes []int32
          isr_nodes []int32
          offline_replicas []int32 5+
        topic_authorized_operations int32 8+ =-2147483648
      cluster_authorized_operations int32 8-10 =-2147483648
""")

CREATE_TOPICS = api("""
    19 CreateTopics 2-7 flexible:5
    request
      topics []
        name string
        num_partitions int32
        replication_factor int16
        assignments []
          partition_index int32
          broker_ids []int32
        configs []
          name string
          value string null
      timeout_ms int32 =60000
      validate_only bool
    answer
      throttle_time_ms int32
      topics []
        name string
        topic_id uuid 7+
        error_code int16
        error_message string null
        topic_config_error_code int16 5+ tag:0
        num_partitions int32 5+ =-1
        replication_factor int16 5+ =-1
        configs [] 5+ null
          name string
          value string null
          read_only bool
          config_source int8 =-1
          is_sensitive bool
""")

DELETE_TOPICS = api("""
    20 DeleteTopics 1-6 flexible:4
    request
      topics [] 6+
        name string null =None
        topic_id uuid
      topic_names []string 0-5
      timeout_ms int32
    answer
      throttle_time_ms int32
      responses []
        name string null:6
        topic_id uuid 6+
        error_code int16
        error_message string 5+ null =None
""")

CREATE_PARTITIONS = api("""
    37 CreatePartitions 0-3 flexible:2
    request
      topics []
        name string
        count int32
        assignments [] null
          broker_ids []int32
      timeout_ms int32
      validate_only bool
    answer
      throttle_time_ms int32
      results []
        name string
        error_code int16
        error_message string null =None
""")
