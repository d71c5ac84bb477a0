"""Listing: whose list of models (GET /v1/models) says that a credential is good."""

from providers.adapters.probing import ENGINE_PROBES

# By their own documentation it is told to those alone who have one; others tell everybody, or have none at that address.
AUTHENTICATED_LISTINGS = frozenset({"openai", "anthropic", "mistral", "xai", "deepseek", "groq", "cerebras", *ENGINE_PROBES})
