-- Every table, view and function of Penstock, taken away: the opposite of schema.sql.
DROP VIEW IF EXISTS penstock_events;
DROP FUNCTION IF EXISTS penstock_headers(bytea), penstock_json(bytea), penstock_text(bytea);

-- In one statement: scheduled takes its numbers from the sequence of staged.
DROP TABLE IF EXISTS
    penstock_meta,
    penstock_staged,
    penstock_scheduled,
    penstock_topic,
    penstock_head,
    penstock_generation,
    penstock_log,
    penstock_log_time,
    penstock_hold,
    penstock_producer,
    penstock_member,
    penstock_slot,
    penstock_group,
    penstock_cursor,
    penstock_domain,
    penstock_lane,
    penstock_lane_entry,
    penstock_note,
    penstock_fallback,
    penstock_dead,
    penstock_token,
    penstock_periodic,
    penstock_topic_config,
    penstock_kafka_producer,
    penstock_kafka_sequence,
    penstock_pending,
    penstock_pending_offset,
    penstock_kafka_group,
    penstock_broker,
    penstock_access_rule,
    penstock_value_schema,
    penstock_audit;
