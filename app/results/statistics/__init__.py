"""The statistics: pure functions on counts and sums. compare.py is the way in."""
