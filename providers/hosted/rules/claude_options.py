"""The options of adapters that reach Claude: the default token limit and beta features."""

from collections.abc import Mapping
from typing import Any

from providers.adapters.options import InvalidOption
from providers.profiles.claude.request_body import DEFAULT_MAX_TOKENS, RequestDefaults

CLAUDE_OPTIONS: Mapping[str, str] = {
    "max_tokens": f"the token limit of Claude's responses for callers who set none, as Claude requires one ({DEFAULT_MAX_TOKENS})",
    "anthropic_beta": "a list of beta features to send to Claude",
}


def read_defaults(options: Mapping[str, Any]) -> RequestDefaults:
    """The options of CLAUDE_OPTIONS of one provider. Raises InvalidOption."""
    max_tokens = options.get("max_tokens", DEFAULT_MAX_TOKENS)
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise InvalidOption("Option max_tokens must be a number of tokens, at least 1.")
    betas = options.get("anthropic_beta", [])
    if not isinstance(betas, list) or not all(isinstance(beta, str) for beta in betas):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidOption("Option anthropic_beta must be a list of names.")
    return RequestDefaults(max_tokens, tuple(betas))  # pyright: ignore[reportUnknownArgumentType]
