"""The demo: a shop, a load on it, and the proof that every table is right."""
