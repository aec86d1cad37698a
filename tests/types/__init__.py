"""What type checkers say of a user's program."""
