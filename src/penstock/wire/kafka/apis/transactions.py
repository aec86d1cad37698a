"""Idempotent producers and transactions."""

from ..layout import api

INIT_PRODUCER_ID = api("""
    22 InitProducerId 0-4 flexible:2
    request
      transactional_id string null, transaction_timeout_ms int32, producer_id int64 3+ =-1
      producer_epoch int16 3+ =-1
    answer
      throttle_time_ms int32, error_code int16, producer_id int64 =-1, producer_epoch int16
""")

ADD_PARTITIONS_TO_TXN = api("""
    24 AddPartitionsToTxn 0-3 flexible:3
    request
      v3_and_below_transactional_id string, v3_and_below_producer_id int64
      v3_and_below_producer_epoch int16
      v3_and_below_topics []: name string, partitions []int32
    answer
      throttle_time_ms int32
      results_by_topic_v3_and_below []
        name string
        results_by_partition []: partition_index int32, partition_error_code int16
""")

ADD_OFFSETS_TO_TXN = api("""
    25 AddOffsetsToTxn 0-3 flexible:3
    request
      transactional_id string, producer_id int64, producer_epoch int16, group_id string
    answer
      throttle_time_ms int32, error_code int16
""")

END_TXN = api("""
    26 EndTxn 0-3 flexible:3
    request
      transactional_id string, producer_id int64, producer_epoch int16, committed bool
    answer
      throttle_time_ms int32, error_code int16
""")

TXN_OFFSET_COMMIT = api("""
    28 TxnOffsetCommit 0-3 flexible:3
    request
      transactional_id string, group_id string, producer_id int64, producer_epoch int16
      generation_id int32 3+ =-1, member_id string 3+, group_instance_id string 3+ null =None
      topics []
        name string
        partitions []
          partition_index int32, committed_offset int64, committed_leader_epoch int32 2+ =-1
          committed_metadata string null
    answer
      throttle_time_ms int32
      topics []
        name string
        partitions []: partition_index int32, error_code int16
""")

LIST_TRANSACTIONS = api("""
    66 ListTransactions 0-1 flexible:0
    request
      state_filters []string, producer_id_filters []int64, duration_filter int64 1+ =-1
    answer
      throttle_time_ms int32, error_code int16, unknown_state_filters []string
      transaction_states []: transactional_id string, producer_id int64, transaction_state string
""")
