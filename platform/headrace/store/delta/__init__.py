"""The files of a Delta table: written in place, merged, let go."""
