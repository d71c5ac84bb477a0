"""Sums over inferences, and what is read from them: usage, spending, analytics."""
