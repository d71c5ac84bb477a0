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
from providers.hosted.azure import Azure
from providers.hosted.bedrock import Bedrock
from providers.hosted.cohere import Cohere
from providers.hosted.deepseek import DeepSeek
from providers.hosted.fireworks import Fireworks
from providers.hosted.gemini import GoogleAIStudio
from providers.hosted.groq import Groq
from providers.hosted.hyperbolic import Hyperbolic
from providers.hosted.mistral import Mistral
from providers.hosted.openai import OpenAI
from providers.hosted.openrouter import OpenRouter
from providers.hosted.rowed import plain
from providers.hosted.sagemaker import SageMaker
from providers.hosted.vertex import Vertex
from providers.hosted.xai import XAI
from providers.provider import BadOption, Provider
from providers.rows import ROWS

ADAPTERS: Mapping[str, type[Provider]] = {
    each.name: each
    for each in (
        OpenAI,
        # Rows go before the classes of those that need code.
        *map(plain, ROWS),
        Anthropic,
        Azure,
        Bedrock,
        Cohere,
        GoogleAIStudio,
        DeepSeek,
        Fireworks,
        Groq,
        Hyperbolic,
        Mistral,
        OpenRouter,
        XAI,
        Vertex,
        SageMaker,
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


def address(adapter: str, configured_as: str, options: Mapping[str, Any], base_url: str | None = None) -> str | None:
    """Where a `[providers.NAME]` is, as far as its configuration tells; None: it has no address. Raises BadOption."""
    provider = build(adapter, configured_as, options, base_url)
    place = base_url or provider.default_base_url
    return provider.place(place) if place else None
