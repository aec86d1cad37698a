"""Every door behind the one lock."""
