"""The statements of this room, one folder per dialect."""
