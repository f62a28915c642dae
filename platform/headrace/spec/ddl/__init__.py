"""The DDL around a query: its text, its words, and what they declare."""
