"""Adapter name -> Provider: the only list of them."""

from collections.abc import Mapping
from typing import Any

from providers.engines.auto import Auto
from providers.engines.llamacpp import LlamaCpp
from providers.engines.llamacpp_python import LlamaCppPython
from providers.engines.lmdeploy import LMDeploy
from providers.engines.mini_sglang import MiniSGLang
from providers.engines.ollama import Ollama
from providers.engines.sandbox import Sandbox
from providers.engines.sglang import SGLang
from providers.engines.tgi import TGI
from providers.engines.transformers import Transformers
from providers.engines.vllm import VLLM
from providers.hosted.anthropic import Anthropic
from providers.provider import BadOption, Provider

ADAPTERS: Mapping[str, type[Provider]] = {
    each.name: each
    for each in (
        Provider,
        Anthropic,
        Auto,
        VLLM,
        SGLang,
        LMDeploy,
        Ollama,
        TGI,
        MiniSGLang,
        LlamaCpp,
        LlamaCppPython,
        Transformers,
        Sandbox,
    )
}


def build(adapter: str, configured_as: str, options: Mapping[str, Any], base_url: str | None = None) -> Provider:
    """The adapter for a `[providers.NAME]`. Raises BadOption if there is none of that name, or it cannot take the options."""
    kind = ADAPTERS.get(adapter)
    if kind is None:
        raise BadOption(f"Provider {configured_as!r}: there is no adapter {adapter!r}. There are: {', '.join(sorted(ADAPTERS))}.")
    return kind(configured_as, options, None, base_url)
