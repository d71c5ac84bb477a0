"""Comparison of the responses of a replay with those of its originals."""
