"""Shadows: a share of requests is answered again by another variant or model, for comparison. No caller sees, waits or pays for that."""
