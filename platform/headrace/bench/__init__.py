"""Benchmarks of the real engine, in process: no Kafka, no PostgreSQL. One module a suite."""

from __future__ import annotations
