"""Checking a provider: one cheap request, sent as the gateway sends it, and its result explained."""
