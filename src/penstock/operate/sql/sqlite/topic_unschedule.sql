-- Take back what is scheduled for a topic; reads the table, and waits for callers who are cancelling some of it. Slots and
-- heads are locked already, so no move is under way.
DELETE FROM penstock_scheduled WHERE topic = :topic;
