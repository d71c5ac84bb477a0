"""Laws, exchanges, stories, engines, and the house."""
