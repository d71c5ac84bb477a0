"""Replays: recorded requests are answered again by another model or variant. runner.py is the way in."""
