"""The routes by which a key sees what is its own, and the playground, for pages and their sessions."""
