"""Fleet: the endpoints behind targets: what runs there, how loaded they are, and which to try first. fleet.py is the way in."""
