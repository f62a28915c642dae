"""The bulk snapshot: a source's tables copied at its replication slot's snapshot, past Connect and Kafka.

Nothing here imports Spark. `engine.bulk` runs it; `choice` says when.
"""
