"""Delivery to one group on one topic: its partitions, what is read for them, handed out and settled."""
