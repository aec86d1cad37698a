"""One scripted conversation in Kafka's protocol, held with Apache Kafka and with Penstock.

`talk.py` asks and writes answers down so that two brokers' can be compared; each of the other files is a
chapter of what is said; `answers.json` is what Apache Kafka answered. What differs stands in
docs/reference/kafka-differences.md, which `test_conversation.py` reads.
"""
