-- Every table of Penstock, taken away: the opposite of schema.sql.
DROP TABLE IF EXISTS penstock_meta;
DROP TABLE IF EXISTS penstock_staged;
DROP TABLE IF EXISTS penstock_scheduled;
DROP TABLE IF EXISTS penstock_topic;
DROP TABLE IF EXISTS penstock_head;
DROP TABLE IF EXISTS penstock_log;
DROP TABLE IF EXISTS penstock_log_time;
DROP TABLE IF EXISTS penstock_member;
DROP TABLE IF EXISTS penstock_slot;
DROP TABLE IF EXISTS penstock_group;
DROP TABLE IF EXISTS penstock_cursor;
DROP TABLE IF EXISTS penstock_domain;
DROP TABLE IF EXISTS penstock_lane;
DROP TABLE IF EXISTS penstock_lane_entry;
DROP TABLE IF EXISTS penstock_dead;
DROP TABLE IF EXISTS penstock_token;
DROP TABLE IF EXISTS penstock_audit;
