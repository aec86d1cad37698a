"""The log: an append-only sequence of records per topic and partition, behind one contract."""
