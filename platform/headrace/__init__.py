"""headrace: a database's changes into a layered Spark warehouse, stream and batch from one SQL text."""

__version__ = "0.1.0"
