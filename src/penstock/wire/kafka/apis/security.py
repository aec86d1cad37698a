"""Authentication (SASL) and access rules (ACLs)."""

from ..layout import api

SASL_HANDSHAKE = api("""
    17 SaslHandshake 0-1
    request
      mechanism string
    answer
      error_code int16, mechanisms []string
""")

SASL_AUTHENTICATE = api("""
    36 SaslAuthenticate 0-2 flexible:2
    request
      auth_bytes bytes
    answer
      error_code int16, error_message string null =None, auth_bytes bytes, session_lifetime_ms int64 1+
""")

DESCRIBE_ACLS = api("""
    29 DescribeAcls 1-3 flexible:2
    request
      resource_type_filter int8, resource_name_filter string null =None, pattern_type_filter int8 1+ =3
      principal_filter string null =None, host_filter string null =None, operation int8
      permission_type int8
    answer
      throttle_time_ms int32, error_code int16, error_message string null =None
      resources []
        resource_type int8, resource_name string, pattern_type int8 1+ =3
        acls []: principal string, host string, operation int8, permission_type int8
""")

CREATE_ACLS = api("""
    30 CreateAcls 1-3 flexible:2
    request
      creations []
        resource_type int8, resource_name string, resource_pattern_type int8 1+ =3, principal string
        host string, operation int8, permission_type int8
    answer
      throttle_time_ms int32
      results []: error_code int16, error_message string null =None
""")

DELETE_ACLS = api("""
    31 DeleteAcls 1-3 flexible:2
    request
      filters []
        resource_type_filter int8, resource_name_filter string null =None, pattern_type_filter int8 1+ =3
        principal_filter string null =None, host_filter string null =None, operation int8
        permission_type int8
    answer
      throttle_time_ms int32
      filter_results []
        error_code int16, error_message string null =None
        matching_acls []
          error_code int16, error_message string null =None, resource_type int8, resource_name string
          pattern_type int8 1+ =3, principal string, host string, operation int8, permission_type int8
""")
