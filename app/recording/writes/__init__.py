"""Statements of the writer: rows are copied, sums raised, and expired partitions dropped."""
