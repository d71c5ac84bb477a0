"""Trying a provider: one cheap request, made as the gateway makes it, and what came of it in words."""
