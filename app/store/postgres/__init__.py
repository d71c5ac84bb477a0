"""Connections, transactions, tables and what queries of every subject share. database.py and tables are the way in."""
