"""The request from top to bottom. serve.py is the way in; each of its stages has a file."""
