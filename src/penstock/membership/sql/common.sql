-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == Members
-- The database's clock decides whether a lease runs; among members of one host that host's clock, which nothing sets, so
-- that no member of it loses anything because the time of day was changed.

-- name: member_beat
-- Renew a lease and store the member's status; locks the member's own row only.
UPDATE penstock_member
SET lease_until_ms = now_ms(:now_ms) + :lease_ms, host_lease_until_ms = :host_ms::bigint + :lease_ms::bigint, status = :status
WHERE id = :id;

-- name: member_leases
-- The members whose lease runs, each with the end of its lease and how long that is from now; reads the table, which is
-- small, locks nothing.
SELECT id, host, pid, started, lease_until_ms,
       CASE WHEN host <> '' AND host = :host::text AND host_lease_until_ms IS NOT NULL
            THEN host_lease_until_ms - :host_ms::bigint ELSE lease_until_ms - now_ms(:now_ms) END FROM penstock_member
WHERE CASE WHEN host <> '' AND host = :host::text AND host_lease_until_ms IS NOT NULL
            THEN host_lease_until_ms - :host_ms::bigint ELSE lease_until_ms - now_ms(:now_ms) END > 0 ORDER BY id;

-- name: member_join
-- Add this process with a fresh lease; locks nothing but its own row. A second try,
-- after a commit in doubt, renews it.
-- without on_conflict: update_or_insert(member_join_update, member_join_insert)
INSERT INTO penstock_member (id, host, pid, started, joined_ms, lease_until_ms, serves, dedicated, state, host_lease_until_ms)
VALUES (:id, :host, :pid, :started, now_ms(:now_ms), now_ms(:now_ms) + :lease_ms, :serves, :dedicated, :state,
        :host_ms::bigint + :lease_ms::bigint)
ON CONFLICT (id) DO UPDATE SET lease_until_ms = excluded.lease_until_ms, serves = excluded.serves,
    host_lease_until_ms = excluded.host_lease_until_ms;

-- name: member_died
-- Record that a member's process has certainly ended: its lease ends, and its row stays for the members that take over.
-- Locks its row.
UPDATE penstock_member
SET died_ms = now_ms(:now_ms), lease_until_ms = least(lease_until_ms, now_ms(:now_ms)),
    host_lease_until_ms = least(host_lease_until_ms, :host_ms::bigint)
WHERE id = :id;

-- name: members_dedicated
-- The members whose processes do nothing else, and whether they are known to have ended; reads the table, which is small,
-- locks nothing.
SELECT id, host, pid, started, died_ms IS NOT NULL FROM penstock_member WHERE dedicated;

-- name: member_join_update
-- The second form of member_join, for an existing member; locks its row.
UPDATE penstock_member
SET lease_until_ms = now_ms(:now_ms) + :lease_ms, host_lease_until_ms = :host_ms::bigint + :lease_ms::bigint, serves = :serves
WHERE id = :id;

-- name: member_join_insert
-- The second form of member_join, for a new member; locks nothing but its own row.
INSERT INTO penstock_member (id, host, pid, started, joined_ms, lease_until_ms, serves, dedicated, state, host_lease_until_ms)
VALUES (:id, :host, :pid, :started, now_ms(:now_ms), now_ms(:now_ms) + :lease_ms, :serves, :dedicated, :state,
        :host_ms::bigint + :lease_ms::bigint);

-- name: member_leave
-- Remove a member; locks its row.
DELETE FROM penstock_member WHERE id = :id;

-- name: member_list
-- All members and whether their lease runs; reads the table, which is small, locks nothing.
SELECT id, host, pid, started,
       CASE WHEN host <> '' AND host = :host::text AND host_lease_until_ms IS NOT NULL
            THEN host_lease_until_ms - :host_ms::bigint ELSE lease_until_ms - now_ms(:now_ms) END > 0
FROM penstock_member ORDER BY id;

-- name: member_statuses
-- All members, how long their leases still run, when their end was recorded, and their status; reads the table, which is
-- small, locks nothing.
SELECT id, host, pid, started,
       CASE WHEN host <> '' AND host = :host::text AND host_lease_until_ms IS NOT NULL
            THEN host_lease_until_ms - :host_ms::bigint ELSE lease_until_ms - now_ms(:now_ms) END,
       died_ms, state, status
FROM penstock_member ORDER BY id;

-- name: member_neighbours
-- All members, and beside each the version of the tables, so that a heartbeat needs no statement for it; reads the table,
-- which is small, and two rows by their primary key; locks nothing.
SELECT id, host, pid, started,
       (SELECT value FROM penstock_meta WHERE name = 'schema_version'),
       (SELECT value FROM penstock_meta WHERE name = 'usable_from')
FROM penstock_member ORDER BY id;

-- name: member_prune
-- Remove members whose lease ended long ago; reads the table, which is small.
DELETE FROM penstock_member
WHERE CASE WHEN host <> '' AND host = :host::text AND host_lease_until_ms IS NOT NULL
            THEN host_lease_until_ms - :host_ms::bigint ELSE lease_until_ms - now_ms(:now_ms) END < - :removal_ms::bigint;

-- name: member_serve
-- Store what a member takes part in; locks its own row only.
UPDATE penstock_member SET serves = :serves WHERE id = :id;

-- name: member_serving
-- The members whose lease runs, how long they have been present, what they serve, and whether they are stopping; reads the
-- table, which is small, locks nothing.
SELECT id, host, pid, started, now_ms(:now_ms) - joined_ms, serves, state FROM penstock_member
WHERE CASE WHEN host <> '' AND host = :host::text AND host_lease_until_ms IS NOT NULL
            THEN host_lease_until_ms - :host_ms::bigint ELSE lease_until_ms - now_ms(:now_ms) END > 0 ORDER BY id;

-- name: member_state
-- Store that a member is running or stopping; locks its own row only.
UPDATE penstock_member SET state = :state WHERE id = :id;

-- == Domains: the rows that are shared, and the members that share them

-- name: cursors_shared
-- The owner and the wanted owner of each partition of groups on topics; walks the primary key, locks nothing.
SELECT c.group_id, c.topic_id, c.partition, c.owner, c.owner_wanted
FROM rows(:shared, group_id integer, topic_id integer) AS s
JOIN penstock_cursor c ON c.group_id = s.group_id AND c.topic_id = s.topic_id
ORDER BY c.group_id, c.topic_id, c.partition;

-- name: cursors_want
-- Write the wanted owners of partitions of a group; walks the primary key and locks those rows in order, waiting for the
-- settlings under way. The locks come in a WITH: as a subquery it was run again for each row, 200 ms a group.
-- without update_from: for_each(wanted, cursors_want_one)
WITH w AS MATERIALIZED (
    SELECT l.partition, n.owner FROM rows(:wanted, number integer, owner text) AS n
    CROSS JOIN penstock_cursor l ON l.group_id = :group_id AND l.topic_id = :topic_id AND l.partition = n.number
    ORDER BY l.partition FOR NO KEY UPDATE OF l)
UPDATE penstock_cursor AS c SET owner_wanted = w.owner FROM w
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = w.partition;

-- name: cursors_want_one
-- The second form of cursors_want, for one partition; walks the primary key, locks that row.
UPDATE penstock_cursor SET owner_wanted = :owner
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :number;

-- name: domain_touch
-- Raise a domain's version, so that its members look; locks its row.
UPDATE penstock_domain SET version = version + 1 WHERE name = :name;

-- name: domain_write
-- Write the members that were given a share, and raise the version, so that members look; the row is locked already.
UPDATE penstock_domain SET version = version + 1, members = :members WHERE name = :name;

-- name: domains_create
-- Make domains unless they are there, in the order of their names; locks the new names.
-- without on_conflict: instead(domains_create_missing)
INSERT INTO penstock_domain (name, version, members)
SELECT n.name, 0, '[]' FROM rows(:domains, name text) AS n
WHERE true
ORDER BY n.name
ON CONFLICT (name) DO NOTHING;

-- name: domains_create_missing
-- The second form of domains_create; walks the primary key.
INSERT INTO penstock_domain (name, version, members)
SELECT n.name, 0, '[]' FROM rows(:domains, name text) AS n
WHERE NOT EXISTS (SELECT 1 FROM penstock_domain d WHERE d.name = n.name)
ORDER BY n.name;

-- name: domains_lock
-- Hold domains, to compute the owners of their rows; locks the domains that no member holds, in the order of their names,
-- and skips the others: another member is working on them.
SELECT name FROM penstock_domain WHERE name = ANY(:names::text[]) ORDER BY name FOR UPDATE SKIP LOCKED;

-- name: domains_read
-- The versions of domains, and the members that were given a share; walks the primary key, locks nothing.
SELECT name, version, members FROM penstock_domain WHERE name = ANY(:names::text[]);

-- name: domains_wait
-- Hold domains, waiting for the members that work on them; locks them in the order of their names.
SELECT name FROM penstock_domain WHERE name = ANY(:names::text[]) ORDER BY name FOR UPDATE;

-- name: filters_lock
-- The filters of groups, perhaps to be changed; locks the groups in the order of their ids.
SELECT id, filters FROM penstock_group WHERE id = ANY(:groups::integer[]) ORDER BY id FOR NO KEY UPDATE;

-- name: filters_read
-- The filters of groups; walks the primary key, locks nothing.
SELECT id, filters FROM penstock_group WHERE id = ANY(:groups::integer[]);

-- name: filters_write
-- Write a group's filters; its row is locked already.
UPDATE penstock_group SET filters = :filters, filter_version = filter_version + 1 WHERE id = :group_id;

-- name: domain_delete
-- Remove the sharing state of a group; walks the primary key. The row is locked already.
DELETE FROM penstock_domain WHERE name = :name;

-- == Slots

-- name: gauge_slots
-- How many slots one member owns, and how many no living member owns; reads the table: 256 rows, locks nothing.
SELECT count(*) FILTER (WHERE owner = :owner),
       count(*) FILTER (WHERE owner IS NULL OR owner <> ALL(:living::text[]))
FROM penstock_slot;

-- name: slots_free
-- How many slots no member in this list of living members owns; reads the table: 256 rows. A hint: nothing is locked.
SELECT count(*) FROM penstock_slot WHERE owner IS NULL OR owner <> ALL(:living::text[]);

-- name: slots_give
-- Release the slots of a member that it should not own; release is a change of owner, so the epoch rises. Locks them in
-- slot order. As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_slot SET owner = NULL, epoch = epoch + 1
WHERE slot = ANY(ARRAY(
    SELECT slot FROM penstock_slot WHERE owner = :id AND (owner_wanted IS NULL OR owner_wanted <> :id)
    ORDER BY slot FOR UPDATE));

-- name: slots_owned
-- The slots a member owns and their epochs; reads the table: 256 rows, locks nothing.
SELECT slot, epoch FROM penstock_slot WHERE owner = :id;

-- name: slots_release
-- Release all slots of a member; release is a change of owner, so the epoch rises. Locks them in slot order. As an array:
-- the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_slot SET owner = NULL, epoch = epoch + 1
WHERE slot = ANY(ARRAY(SELECT slot FROM penstock_slot WHERE owner = :id ORDER BY slot FOR UPDATE));

-- name: slots_shared
-- The owner and the wanted owner of each slot; reads the table: 256 rows, locks nothing.
SELECT slot, owner, owner_wanted FROM penstock_slot ORDER BY slot;

-- name: slots_take
-- Take slots that no member in this list of living members owns; a new owner is a new epoch. Skips locked rows: their owner
-- is in the middle of a move, and the next try will find them. As an array: the subquery of an IN may be run anew, locks
-- and all, for each row of the table.
-- without returning: find_then_change(slots_take_find, slots_take_write)
UPDATE penstock_slot SET owner = :id, epoch = epoch + 1
WHERE slot = ANY(ARRAY(
    SELECT slot FROM penstock_slot WHERE owner IS NULL OR owner <> ALL(:living::text[])
    ORDER BY slot FOR UPDATE SKIP LOCKED))
RETURNING slot, epoch;

-- name: slots_take_find
-- The second form of slots_take, first step: the slots to take, as they will be then. Locks in slot order, skipping locked
-- rows.
SELECT slot, epoch + 1 FROM penstock_slot WHERE owner IS NULL OR owner <> ALL(:living::text[])
ORDER BY slot FOR UPDATE SKIP LOCKED;

-- name: slots_take_write
-- The second form of slots_take, second step; walks the primary key, the rows are locked already.
UPDATE penstock_slot SET owner = :id, epoch = epoch + 1 WHERE slot = ANY(:found::integer[]);

-- name: slots_take_wanted
-- Take the slots that a member should own and that no member in this list of living members owns; a new owner is a new
-- epoch. Skips locked rows: their owner is in the middle of a move, and the next try will find them. As an array: the
-- subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_slot SET owner = :id, epoch = epoch + 1
WHERE slot = ANY(ARRAY(
    SELECT slot FROM penstock_slot WHERE owner_wanted = :id AND (owner IS NULL OR owner <> ALL(:living::text[]))
    ORDER BY slot FOR UPDATE SKIP LOCKED));

-- name: slots_want
-- Write the wanted owners of slots; locks them in slot order, waiting for the moves under way.
-- without update_from: for_each(wanted, slots_want_one)
WITH w AS MATERIALIZED (
    SELECT l.slot, n.owner FROM rows(:wanted, number integer, owner text) AS n
    CROSS JOIN penstock_slot l ON l.slot = n.number
    ORDER BY l.slot FOR NO KEY UPDATE OF l)
UPDATE penstock_slot AS s SET owner_wanted = w.owner FROM w WHERE s.slot = w.slot;

-- name: slots_want_one
-- The second form of slots_want, for one slot; walks the primary key, locks that row.
UPDATE penstock_slot SET owner_wanted = :owner WHERE slot = :number;

-- name: take_turn
-- Wait for the turn to take slots; locks one row that all takers lock, so that each sees what the previous one took.
SELECT name FROM penstock_meta WHERE name = 'log_id' FOR UPDATE;

-- name: domains_delete
-- Remove the sharing state of a deleted topic; reads the table, which is small.
DELETE FROM penstock_domain WHERE name LIKE 'group/%/' || :topic_id::text;

-- name: slots_lock
-- Hold all slots, so that nothing is moved; locks them in slot order, waiting for the moves under way. 256 rows.
SELECT slot FROM penstock_slot ORDER BY slot FOR UPDATE;

-- name: slot_owner
-- The owner of a slot; walks the primary key, locks nothing.
SELECT owner FROM penstock_slot WHERE slot = :slot;
