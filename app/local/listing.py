"""Listing: whose list of models (GET /v1/models) says that a credential is good."""

from providers.probing import HABITS

# By their own documentation it is told to those alone who have one; others tell everybody, or have none at that address.
LISTS = frozenset({"openai", "anthropic", "mistral", "xai", "deepseek", "groq", "cerebras", *HABITS})
