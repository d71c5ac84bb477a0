"""Commands made from the operations of the admin API. manifest.py is the way in."""
