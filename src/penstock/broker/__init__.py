"""The Kafka port: sockets, what a request does, groups of clients, producers and their transactions."""
