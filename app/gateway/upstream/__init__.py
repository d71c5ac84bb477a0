"""Calls of engines and hosts: one attempt, its response and its progress. client.py is the way in."""
