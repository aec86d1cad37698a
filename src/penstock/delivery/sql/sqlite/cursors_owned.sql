-- The cursors a member owns, with their epochs and whom they are meant for, and whether the group is paused; walks the primary key.
SELECT c.partition, c.epoch, c.owner_wanted, g.paused_ms IS NOT NULL
FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.owner = :owner;
