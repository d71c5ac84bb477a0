"""Limits: reserve before a request, settle after it. limits.py is the way in."""
