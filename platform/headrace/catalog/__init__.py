"""Desired and observed state of every table, kept in a small relational database."""

from headrace.catalog.catalog import Catalog, CatalogRow, Desired
from headrace.catalog.readers import Reader, Readers

__all__ = ["Catalog", "CatalogRow", "Desired", "Reader", "Readers"]
