"""Experiments: which arm a request is assigned to, purely by its unit and the snapshot. assignment.py is the way in."""
