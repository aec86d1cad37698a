"""The Kafka port: sockets, request handlers, groups of clients, producers and their transactions."""
