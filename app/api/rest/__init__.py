"""How operations of the admin API are declared and served. operation.py is the way in."""
