"""The runtime that joins sequencer, delivery and handlers in one process."""
