"""Webhooks, and the events that they are notified of."""
