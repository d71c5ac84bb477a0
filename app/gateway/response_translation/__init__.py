"""Response translation: from an engine's response to the caller's. translate.py is the way in."""
