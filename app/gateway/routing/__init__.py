"""Routing: the name of a model or function becomes targets in order. plan.py is the way in."""
