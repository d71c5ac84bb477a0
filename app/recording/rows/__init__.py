"""Rows of the database, as plain values: what an exchange becomes. inference_rows.py is the way in."""
