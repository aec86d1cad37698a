-- Remove a member.
DELETE FROM penstock_member WHERE id = :id;
