"""Whether a configuration is valid, entry by entry and as a whole. validate.py is the way in."""
