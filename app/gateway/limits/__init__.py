"""Limits: reserve before a request, settle after. limits.py is the way in."""
