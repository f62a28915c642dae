"""Partition labels, and when a partition is complete."""
