"""Datasets: what they select, their builds and rows."""
