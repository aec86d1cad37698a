"""The statements of this room."""
