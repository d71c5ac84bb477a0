"""Requests as they speak to the gateway itself, in headers and reserved fields."""
