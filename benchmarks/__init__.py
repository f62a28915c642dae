"""Measurements of headrace: a module a suite in `suites`, what other systems do in `peers`."""

from __future__ import annotations
