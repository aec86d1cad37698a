-- Take the cursors that were meant for this member and that nobody in this list of living members owns. A new owner is a
-- new epoch; one that did not release is counted as a crash. Walks the primary key.
UPDATE penstock_cursor
SET owner = :owner, epoch = epoch + 1, crashes = crashes + CASE WHEN owner IS NULL THEN 0 ELSE 1 END
WHERE group_id = :group_id AND topic_id = :topic_id AND owner_wanted = :owner
  AND (owner IS NULL OR owner NOT IN (SELECT value FROM json_each(:living)))
RETURNING partition, "offset", epoch, version, passed, crashes, trying;
