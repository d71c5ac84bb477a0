"""Recorded requests and responses as messages, whichever API they came by."""
