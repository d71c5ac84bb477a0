"""Trying targets and endpoints until one serves. attempts.py is the way in."""
