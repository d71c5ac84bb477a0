"""Google's API for callers: models by their addresses, keys in its places, errors in its shape."""
