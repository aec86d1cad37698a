"""Long runs under faults: workers killed and stopped while five kinds of groups read one topic."""
