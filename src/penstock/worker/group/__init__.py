"""Delivery to one group on one topic: its partitions, and reading, handing out and settling their records."""
