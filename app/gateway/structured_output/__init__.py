"""Structured output: constraints are checked before a request and responses after it. constraint_checks.py is the way in."""
