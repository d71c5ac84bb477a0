"""Counts function calls per request and per streamed chunk in the gateway process. See __main__.py."""
