-- Who owns a slot; walks the primary key, locks nothing.
SELECT owner FROM penstock_slot WHERE slot = %(slot)s;
