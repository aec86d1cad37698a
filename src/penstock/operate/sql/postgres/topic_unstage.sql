-- Take back what is staged for a topic; reads the table. Slots and heads are locked already, so no move is under way.
DELETE FROM penstock_staged WHERE topic = %(topic)s;
