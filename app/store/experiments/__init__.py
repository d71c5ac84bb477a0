"""Reads and edits of experiments by the admin API and commands."""
