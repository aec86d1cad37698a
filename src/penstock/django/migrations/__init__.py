"""Penstock's tables by `manage.py migrate`: one file per version of the chain in `database/`."""
