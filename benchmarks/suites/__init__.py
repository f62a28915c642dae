"""The suites, each named as `headrace bench` names it."""
