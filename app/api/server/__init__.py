"""HTTP itself: connections, heads, bodies, TLS and what all routes share."""
