"""Credentials of an endpoint: which to use, prepared requests, cooldowns. pool.py is the way in."""
