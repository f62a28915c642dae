"""Rows and their seeded changes."""
