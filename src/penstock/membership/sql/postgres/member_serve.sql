-- Say what a member takes part in; locks its own row only.
UPDATE penstock_member SET serves = %(serves)s WHERE id = %(id)s;
