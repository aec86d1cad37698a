-- Who owns a slot; walks the primary key.
SELECT owner FROM penstock_slot WHERE slot = :slot;
