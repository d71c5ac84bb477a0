"""Changes of experiments: versions of their weights, acts, and what ends them."""
