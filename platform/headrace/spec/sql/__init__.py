"""The query of a layer file: what it reads, and its text as Spark runs it."""
