"""The configs of topics and brokers."""

from ..layout import api

DESCRIBE_CONFIGS = api("""
    32 DescribeConfigs 1-4 flexible:4
    request
      resources []
        resource_type int8
        resource_name string
        configuration_keys []string null
      include_synonyms bool
      include_documentation bool 3+
    answer
      throttle_time_ms int32
      results []
        error_code int16
        error_message string null
        resource_type int8
        resource_name string
        configs []
          name string
          value string null
          read_only bool
          config_source int8 =-1
          is_sensitive bool
          synonyms []
            name string
            value string null
            source int8
          config_type int8 3+
          documentation string 3+ null
""")

ALTER_CONFIGS = api("""
    33 AlterConfigs 0-2 flexible:2
    request
      resources []
        resource_type int8
        resource_name string
        configs []
          name string
          value string null
      validate_only bool
    answer
      throttle_time_ms int32
      responses []
        error_code int16
        error_message string null
        resource_type int8
        resource_name string
""")

INCREMENTAL_ALTER_CONFIGS = api("""
    44 IncrementalAlterConfigs 0-1 flexible:1
    request
      resources []
        resource_type int8
        resource_name string
        configs []
          name string
          config_operation int8
          value string null
      validate_only bool
    answer
      throttle_time_ms int32
      responses []
        error_code int16
        error_message string null
        resource_type int8
        resource_name string
""")
