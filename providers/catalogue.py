"""Adapter name -> Provider: the only list of them."""

from collections.abc import Mapping
from typing import Any

from providers.adapters.provider import InvalidOption, Provider
from providers.engines.auto.adapter import Auto
from providers.engines.llamacpp.adapter import LlamaCpp
from providers.engines.llamacpp_python.adapter import LlamaCppPython
from providers.engines.lmdeploy.adapter import LMDeploy
from providers.engines.mini_sglang.adapter import MiniSGLang
from providers.engines.ollama.adapter import Ollama
from providers.engines.sandbox.adapter import Sandbox
from providers.engines.sglang.adapter import SGLang
from providers.engines.tgi.adapter import TGI
from providers.engines.transformers.adapter import Transformers
from providers.engines.vllm.adapter import VLLM
from providers.hosted.anthropic.adapter import Anthropic
from providers.hosted.azure.adapter import Azure
from providers.hosted.bedrock.adapter import Bedrock
from providers.hosted.cohere.adapter import Cohere
from providers.hosted.deepseek.adapter import DeepSeek
from providers.hosted.fireworks.adapter import Fireworks
from providers.hosted.gemini.adapter import GoogleAIStudio
from providers.hosted.groq.adapter import Groq
from providers.hosted.host_specs import HOSTS
from providers.hosted.hyperbolic.adapter import Hyperbolic
from providers.hosted.mistral.adapter import Mistral
from providers.hosted.openai.adapter import OpenAI
from providers.hosted.openrouter.adapter import OpenRouter
from providers.hosted.rules.host_spec_provider import provider_from_spec
from providers.hosted.sagemaker.adapter import SageMaker
from providers.hosted.vertex.adapter import Vertex
from providers.hosted.xai.adapter import XAI

ADAPTERS: Mapping[str, type[Provider]] = {
    each.name: each
    for each in (
        OpenAI,
        # Rows go before the classes of those that need code.
        *map(provider_from_spec, HOSTS),
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


def build_provider(adapter: str, configured_as: str, options: Mapping[str, Any], base_url: str | None = None) -> Provider:
    """The adapter for a `[providers.NAME]`. Raises BadOption if there is none of that name, or it cannot take the options."""
    adapter_class = ADAPTERS.get(adapter)
    if adapter_class is None:
        raise InvalidOption(f"Provider {configured_as!r}: there is no adapter {adapter!r}. There are: {', '.join(sorted(ADAPTERS))}.")
    return adapter_class(configured_as, options, None, base_url)


def provider_url(adapter: str, configured_as: str, options: Mapping[str, Any], base_url: str | None = None) -> str | None:
    """Where a `[providers.NAME]` is, as far as its configuration tells; None: it has no address. Raises BadOption."""
    provider = build_provider(adapter, configured_as, options, base_url)
    url = base_url or provider.default_base_url
    return provider.display_url(url) if url else None
