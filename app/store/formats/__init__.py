"""Formats in which records are exported or packed."""
