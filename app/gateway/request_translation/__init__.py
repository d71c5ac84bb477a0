"""Request translation: from the caller's request to the target's. choose_dialect.py is the way in."""
