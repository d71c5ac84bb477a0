"""Overrides of limits, and when limits last matched: what the database knows of them beside their configuration."""
