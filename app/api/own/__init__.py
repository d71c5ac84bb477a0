"""What a key may see and do itself, for pages and sessions: below /admin/v1/own, and the playground."""
