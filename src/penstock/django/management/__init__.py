"""What `manage.py` finds of Penstock."""
