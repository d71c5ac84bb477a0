"""Request translation: from the caller's request to the target's. translate_request.py is the way in, and tells the story."""
