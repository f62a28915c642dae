"""The engine without its servers: tables, changes as an ingest would write them, refreshes."""
