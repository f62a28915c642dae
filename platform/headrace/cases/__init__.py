"""Case tests: what a table has for given rows, run as batch, as stream and incrementally from one text."""
