"""Counting: what units did becomes sums. background.py is the way in."""
