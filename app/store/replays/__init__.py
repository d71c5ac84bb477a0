"""Replays of recorded requests, and pairs of shadows with their originals."""
