"""Idempotency keys: a retry gets the response of the first request. idempotency.py is the way in."""
