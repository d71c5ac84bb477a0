"""State of the Responses API: stored responses, conversations, item references. conversations.py is the way in."""
