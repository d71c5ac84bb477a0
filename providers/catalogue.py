"""The catalogue: adapter name -> Provider class, engine name -> its probe, operations and routes, dialect name -> dialect.

The only list of each of them.
"""

from collections.abc import Mapping
from typing import Any

from providers.adapters.options import InvalidOption
from providers.adapters.probe import EngineProbe
from providers.adapters.provider import Provider
from providers.canonical.errors import OperationNotSupported
from providers.dialect import CallerDialect
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, CALLER_DIALECTS
from providers.engine_routes.catalogue import build_routes
from providers.engine_routes.openai_compatible import OPENAI_COMPATIBLE_ROUTES
from providers.engine_routes.route import Route
from providers.engines.auto.adapter import Auto
from providers.engines.auto.probe import AUTO_PROBE
from providers.engines.llamacpp.adapter import LlamaCpp
from providers.engines.llamacpp.operations import LLAMACPP_OPERATIONS
from providers.engines.llamacpp.probe import LLAMACPP_PROBE
from providers.engines.llamacpp.routes import LLAMACPP_ROUTES
from providers.engines.llamacpp_python.adapter import LlamaCppPython
from providers.engines.llamacpp_python.operations import LLAMACPP_PYTHON_OPERATIONS
from providers.engines.llamacpp_python.probe import LLAMACPP_PYTHON_PROBE
from providers.engines.llamacpp_python.routes import LLAMACPP_PYTHON_ROUTES
from providers.engines.lmdeploy.adapter import LMDeploy
from providers.engines.lmdeploy.operations import LMDEPLOY_OPERATIONS
from providers.engines.lmdeploy.probe import LMDEPLOY_PROBE
from providers.engines.lmdeploy.routes import LMDEPLOY_ROUTES
from providers.engines.mini_sglang.adapter import MiniSGLang
from providers.engines.mini_sglang.operations import MINI_SGLANG_OPERATIONS
from providers.engines.mini_sglang.probe import MINI_SGLANG_PROBE
from providers.engines.ollama.adapter import Ollama
from providers.engines.ollama.operations import OLLAMA_OPERATIONS
from providers.engines.ollama.probe import OLLAMA_PROBE
from providers.engines.sandbox.adapter import Sandbox
from providers.engines.sandbox.operations import SANDBOX_OPERATIONS
from providers.engines.sandbox.probe import SANDBOX_PROBE
from providers.engines.sandbox.routes import SANDBOX_ROUTES
from providers.engines.sglang.adapter import SGLang
from providers.engines.sglang.operations import SGLANG_OPERATIONS
from providers.engines.sglang.probe import SGLANG_PROBE
from providers.engines.sglang.routes import SGLANG_ROUTES
from providers.engines.tgi.adapter import TGI
from providers.engines.tgi.operations import TGI_OPERATIONS
from providers.engines.tgi.probe import TGI_PROBE
from providers.engines.tgi.routes import TGI_ROUTES
from providers.engines.transformers.adapter import Transformers
from providers.engines.transformers.operations import TRANSFORMERS_OPERATIONS
from providers.engines.transformers.probe import TRANSFORMERS_PROBE
from providers.engines.vllm.adapter import VLLM
from providers.engines.vllm.operations import VLLM_OPERATIONS
from providers.engines.vllm.probe import VLLM_PROBE
from providers.engines.vllm.routes import VLLM_ROUTES
from providers.hosted.anthropic.adapter import Anthropic
from providers.hosted.azure.adapter import Azure
from providers.hosted.azure.claude import AzureClaude, ClaudeOnFoundry
from providers.hosted.azure.resource import serves_claude
from providers.hosted.bedrock.adapter import Bedrock
from providers.hosted.cohere.adapter import Cohere
from providers.hosted.cohere.routes import COHERE_ROUTES
from providers.hosted.deepseek.adapter import DeepSeek
from providers.hosted.fireworks.adapter import Fireworks
from providers.hosted.gemini.adapter import GoogleAIStudio
from providers.hosted.groq.adapter import Groq
from providers.hosted.host_spec_provider import provider_from_spec
from providers.hosted.host_specs import HOSTS
from providers.hosted.hyperbolic.adapter import Hyperbolic
from providers.hosted.mistral.adapter import Mistral
from providers.hosted.openai.adapter import OpenAI
from providers.hosted.openrouter.adapter import OpenRouter
from providers.hosted.sagemaker.adapter import SageMaker
from providers.hosted.vertex.adapter import Vertex
from providers.hosted.xai.adapter import XAI
from providers.hosted.zai.adapter import Zai
from providers.operations.operation import EngineOperations, Operation

ADAPTERS: Mapping[str, type[Provider]] = {
    each.name: each
    for each in (
        OpenAI,
        # A class of its own comes after, and so replaces, the row of the same name in hosts.toml.
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
        Zai,
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

# The adapters whose targets may name a LoRA adapter.
ADAPTERS_WITH_LORA = frozenset(name for name, adapter in ADAPTERS.items() if adapter.lora_naming is not None)

# The engines that may be probed; hosts are not. Without an owner an engine is the first here that recognises the responses.
ENGINE_PROBES: Mapping[str, EngineProbe] = {
    "auto": AUTO_PROBE,
    "vllm": VLLM_PROBE,
    "sglang": SGLANG_PROBE,
    "lmdeploy": LMDEPLOY_PROBE,
    "tgi": TGI_PROBE,
    "llamacpp": LLAMACPP_PROBE,
    "ollama": OLLAMA_PROBE,
    "llamacpp_python": LLAMACPP_PYTHON_PROBE,
    "mini_sglang": MINI_SGLANG_PROBE,
    "transformers": TRANSFORMERS_PROBE,
    "sandbox": SANDBOX_PROBE,
}

ENGINE_OPERATIONS: Mapping[str, EngineOperations] = {
    "vllm": VLLM_OPERATIONS,
    "sglang": SGLANG_OPERATIONS,
    "lmdeploy": LMDEPLOY_OPERATIONS,
    "llamacpp": LLAMACPP_OPERATIONS,
    "ollama": OLLAMA_OPERATIONS,
    "tgi": TGI_OPERATIONS,
    "mini_sglang": MINI_SGLANG_OPERATIONS,
    "transformers": TRANSFORMERS_OPERATIONS,
    "llamacpp_python": LLAMACPP_PYTHON_OPERATIONS,
    "sandbox": SANDBOX_OPERATIONS,
}

OPERATION_NAMES: frozenset[str] = frozenset(
    name for operations in ENGINE_OPERATIONS.values() for name in (*operations.operations, *operations.unavailable)
)

ROUTES: Mapping[str, Route] = build_routes(
    {
        "vllm": VLLM_ROUTES,
        "sandbox": SANDBOX_ROUTES,
        "openai": OPENAI_COMPATIBLE_ROUTES,
        "sglang": SGLANG_ROUTES,
        "lmdeploy": LMDEPLOY_ROUTES,
        "llamacpp": LLAMACPP_ROUTES,
        "tgi": TGI_ROUTES,
        "llamacpp_python": LLAMACPP_PYTHON_ROUTES,
        "cohere": COHERE_ROUTES,
    }
)

# The wire formats in which callers send requests, by the name that a record and a rule know: dialects and engine routes.
DIALECTS: Mapping[str, CallerDialect] = {**CALLER_DIALECTS, **CALLER_CHAT_DIALECTS, **ROUTES}


def build_provider(adapter: str, configured_as: str, options: Mapping[str, Any], base_url: str | None = None) -> Provider:
    """The adapter instance for a `[providers.NAME]`. Raises InvalidOption for an unknown adapter, or an option that it rejects."""
    adapter_class = ADAPTERS.get(adapter)
    if adapter_class is None:
        raise InvalidOption(f"there is no adapter {adapter!r}. There are: {', '.join(sorted(ADAPTERS))}.")
    if is_claude_on_azure(adapter, options, base_url):
        adapter_class = AzureClaude if adapter == Azure.name else ClaudeOnFoundry
    return adapter_class(configured_as, options, None, base_url)


def is_claude_on_azure(adapter: str, options: Mapping[str, Any], base_url: str | None) -> bool:
    """Whether this is Claude on Microsoft Foundry, whichever of the two adapters is configured for it."""
    return (adapter == Azure.name and options.get("api") == "anthropic") or (adapter == Anthropic.name and serves_claude(base_url))


def provider_url(adapter: str, configured_as: str, options: Mapping[str, Any], base_url: str | None = None) -> str | None:
    """The URL of a `[providers.NAME]`, as far as its configuration determines it; None: it has none. Raises InvalidOption."""
    provider = build_provider(adapter, configured_as, options, base_url)
    url = base_url or provider.default_base_url
    return provider.display_url(url) if url else None


def find_operation(engine: str, name: str) -> Operation:
    """An operation of an engine. Raises OperationNotSupported, with the reason, where the engine has none of this name."""
    engine_operations = ENGINE_OPERATIONS.get(engine)
    if engine_operations is None:
        raise OperationNotSupported(f"`{name}` is an operation of self-hosted engines; {engine} is not one that Narthex knows.")
    operation = engine_operations.operations.get(name)
    if operation is None:
        reason = engine_operations.unavailable.get(name, "it has no such call.")
        available = ", ".join(sorted(engine_operations.operations)) or "none"
        raise OperationNotSupported(f"{engine} has no operation `{name}`: {reason} Its operations: {available}.")
    return operation
