"""The cluster: versions, brokers, coordinators."""

from ..layout import api

API_VERSIONS = api("""
    18 ApiVersions 0-4 flexible:3
    request
      client_software_name string 3+, client_software_version string 3+
    answer
      error_code int16
      api_keys []: api_key int16, min_version int16, max_version int16
      throttle_time_ms int32 1+
      supported_features [] 3+ tag:0: name string, min_version int16, max_version int16
      finalized_features_epoch int64 3+ tag:1 =-1
      finalized_features [] 3+ tag:2: name string, max_version_level int16, min_version_level int16
      zk_migration_ready bool 3+ tag:3
""")

DESCRIBE_CLUSTER = api("""
    60 DescribeCluster 0-1 flexible:0
    request
      include_cluster_authorized_operations bool, endpoint_type int8 1+ =1
    answer
      throttle_time_ms int32, error_code int16, error_message string null =None, endpoint_type int8 1+ =1
      cluster_id string, controller_id int32 =-1
      brokers []: broker_id int32, host string, port int32, rack string null =None
      cluster_authorized_operations int32 =-2147483648
""")

FIND_COORDINATOR = api("""
    10 FindCoordinator 0-5 flexible:3
    request
      key string 0-3, key_type int8 1+, coordinator_keys []string 4+
    answer
      throttle_time_ms int32 1+, error_code int16 0-3, error_message string 1-3 null, node_id int32 0-3
      host string 0-3, port int32 0-3
      coordinators [] 4+
        key string, node_id int32, host string, port int32, error_code int16, error_message string null
""")
