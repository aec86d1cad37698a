"""Kafka's own byte layouts."""
