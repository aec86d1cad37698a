-- The next moment after now at which something is due: an event that is scheduled, or a lane that waits for its retry.
-- Walks ix_penstock_scheduled_due and all lanes.
SELECT min(due_ms) FROM (
    SELECT min(due_ms) AS due_ms FROM penstock_scheduled WHERE due_ms > :now_ms
    UNION ALL
    SELECT min(due_ms) FROM penstock_lane WHERE held = 0 AND due_ms > :now_ms
);
