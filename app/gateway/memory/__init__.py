"""Memory: what the requests in progress may hold of it. body_memory.py is the way in."""
