-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == Brokers

-- name: broker_put
-- Record the member that serves an address, which keeps its number; walks the unique index, locks that row.
-- without on_conflict: update_or_insert(broker_put_update, broker_put_insert)
INSERT INTO penstock_broker (host, port, member) VALUES (:host, :port, :member)
ON CONFLICT (host, port) DO UPDATE SET member = excluded.member;

-- name: broker_put_update
-- The second form of broker_put, for an address that is known; walks the unique index, locks that row.
UPDATE penstock_broker SET member = :member WHERE host = :host AND port = :port;

-- name: broker_put_insert
-- The second form of broker_put, for an address that is new; locks nothing.
INSERT INTO penstock_broker (host, port, member) VALUES (:host, :port, :member);

-- name: brokers
-- All brokers, by number; reads the table, which is small, locks nothing.
SELECT node_id, host, port, member FROM penstock_broker ORDER BY node_id;

-- name: broker_delete
-- Forget a broker, unless another member serves its address by now; walks the primary key, locks that row.
DELETE FROM penstock_broker WHERE node_id = :node_id AND member = :member;

-- == Groups of clients

-- name: kafka_group_find
-- The stored state of a group; walks the primary key, locks nothing.
SELECT owner, epoch, generation, protocol_type, protocol, leader, members FROM penstock_kafka_group
WHERE group_id = :group_id;

-- name: kafka_groups
-- Summaries of all groups; reads the table, locks nothing.
SELECT group_id, protocol_type, members <> '[]' FROM penstock_kafka_group;

-- name: kafka_group_lock
-- The coordinator of a group, locked until the transaction ends; walks the primary key.
SELECT owner, epoch FROM penstock_kafka_group WHERE group_id = :group_id FOR UPDATE;

-- name: kafka_group_add
-- Begin to coordinate a group that no broker has coordinated; locks nothing.
-- without on_conflict: instead(kafka_group_add_missing)
INSERT INTO penstock_kafka_group (group_id, owner, epoch) VALUES (:group_id, :owner, 0)
ON CONFLICT (group_id) DO NOTHING;

-- name: kafka_group_add_missing
-- The second form of kafka_group_add; walks the primary key.
INSERT INTO penstock_kafka_group (group_id, owner, epoch) SELECT :group_id, :owner, 0
WHERE NOT EXISTS (SELECT 1 FROM penstock_kafka_group g WHERE g.group_id = :group_id);

-- name: kafka_group_take
-- Become the coordinator of a group; walks the primary key, locks that row.
UPDATE penstock_kafka_group SET owner = :owner, epoch = epoch + 1 WHERE group_id = :group_id;

-- name: kafka_group_put
-- Store the present generation of a group, if it is still coordinated here; walks the primary key, locks that row.
UPDATE penstock_kafka_group
SET generation = :generation, protocol_type = :protocol_type, protocol = :protocol, leader = :leader, members = :members
WHERE group_id = :group_id AND owner = :owner AND epoch = :epoch;

-- name: kafka_group_delete
-- Forget a group; walks the primary key, locks that row.
DELETE FROM penstock_kafka_group WHERE group_id = :group_id;
