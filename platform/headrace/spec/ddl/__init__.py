"""The DDL around a query, and what it declares."""
