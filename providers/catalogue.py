"""Adapter name -> Provider: the only list of them."""

from collections.abc import Mapping
from typing import Any

from providers.engines.sandbox import Sandbox
from providers.engines.vllm import VLLM
from providers.hosted.anthropic import Anthropic
from providers.provider import BadOption, Provider

ADAPTERS: Mapping[str, type[Provider]] = {each.name: each for each in (Provider, Anthropic, VLLM, Sandbox)}


def build(adapter: str, configured_as: str, options: Mapping[str, Any], base_url: str | None = None) -> Provider:
    """The adapter for a `[providers.NAME]`. Raises BadOption if there is none of that name, or it cannot take the options."""
    kind = ADAPTERS.get(adapter)
    if kind is None:
        raise BadOption(f"Provider {configured_as!r}: there is no adapter {adapter!r}. There are: {', '.join(sorted(ADAPTERS))}.")
    return kind(configured_as, options, None, base_url)
