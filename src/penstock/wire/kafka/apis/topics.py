"""Topics: listing, creating, deleting and growing them; and the configs of topics and brokers."""

from ..layout import api

METADATA = api("""
    3 Metadata 0-12 flexible:9
    request
      topics [] null:1: topic_id uuid 10+, name string null:10
      allow_auto_topic_creation bool 4+ =True, include_cluster_authorized_operations bool 8-10
      include_topic_authorized_operations bool 8+
    answer
      throttle_time_ms int32 3+
      brokers []: node_id int32, host string, port int32, rack string 1+ null =None
      cluster_id string 2+ null =None, controller_id int32 1+ =-1
      topics []
        error_code int16, name string null:12, topic_id uuid 10+, is_internal bool 1+
        partitions []
          error_code int16, partition_index int32, leader_id int32, leader_epoch int32 7+ =-1
          replica_nodes []int32, isr_nodes []int32, offline_replicas []int32 5+
        topic_authorized_operations int32 8+ =-2147483648
      cluster_authorized_operations int32 8-10 =-2147483648
""")

CREATE_TOPICS = api("""
    19 CreateTopics 2-7 flexible:5
    request
      topics []
        name string, num_partitions int32, replication_factor int16
        assignments []: partition_index int32, broker_ids []int32
        configs []: name string, value string null
      timeout_ms int32 =60000, validate_only bool
    answer
      throttle_time_ms int32
      topics []
        name string, topic_id uuid 7+, error_code int16, error_message string null
        topic_config_error_code int16 5+ tag:0, num_partitions int32 5+ =-1, replication_factor int16 5+ =-1
        configs [] 5+ null
          name string, value string null, read_only bool, config_source int8 =-1, is_sensitive bool
""")

DELETE_TOPICS = api("""
    20 DeleteTopics 1-6 flexible:4
    request
      topics [] 6+: name string null =None, topic_id uuid
      topic_names []string 0-5, timeout_ms int32
    answer
      throttle_time_ms int32
      responses []: name string null:6, topic_id uuid 6+, error_code int16, error_message string 5+ null =None
""")

CREATE_PARTITIONS = api("""
    37 CreatePartitions 0-3 flexible:2
    request
      topics []
        name string, count int32
        assignments [] null: broker_ids []int32
      timeout_ms int32, validate_only bool
    answer
      throttle_time_ms int32
      results []: name string, error_code int16, error_message string null =None
""")

DESCRIBE_CONFIGS = api("""
    32 DescribeConfigs 1-4 flexible:4
    request
      resources []: resource_type int8, resource_name string, configuration_keys []string null
      include_synonyms bool, include_documentation bool 3+
    answer
      throttle_time_ms int32
      results []
        error_code int16, error_message string null, resource_type int8, resource_name string
        configs []
          name string, value string null, read_only bool, config_source int8 =-1, is_sensitive bool
          synonyms []: name string, value string null, source int8
          config_type int8 3+, documentation string 3+ null
""")

ALTER_CONFIGS = api("""
    33 AlterConfigs 0-2 flexible:2
    request
      resources []
        resource_type int8, resource_name string
        configs []: name string, value string null
      validate_only bool
    answer
      throttle_time_ms int32
      responses []: error_code int16, error_message string null, resource_type int8, resource_name string
""")

INCREMENTAL_ALTER_CONFIGS = api("""
    44 IncrementalAlterConfigs 0-1 flexible:1
    request
      resources []
        resource_type int8, resource_name string
        configs []: name string, config_operation int8, value string null
      validate_only bool
    answer
      throttle_time_ms int32
      responses []: error_code int16, error_message string null, resource_type int8, resource_name string
""")
