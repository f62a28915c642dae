"""The bulk snapshot: a source's tables copied at its replication slot's snapshot, past Connect and Kafka.

Nothing here imports Spark. `engine.snapshot.load` runs it; `choice` says when.
"""
