"""LiteLLM's config.yaml."""
