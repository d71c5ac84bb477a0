"""LiteLLM's providers, by the prefix of a model's name: our adapter, and LiteLLM's defaults for the key and the address.

Sources: docs.litellm.ai/docs/providers, and litellm/litellm_core_utils/get_llm_provider_logic.py of BerriAI/litellm, read 2026-11.
"""

import re
from collections.abc import Mapping

from msgspec import Struct


class LiteLLMHost(Struct, frozen=True):
    """A host as LiteLLM knows it, and our adapter for it."""

    adapter: str
    key_variables: tuple[str, ...] = ()  # where LiteLLM looks for a key that an entry does not have
    address_variables: tuple[str, ...] = ()  # where LiteLLM looks for an address that an entry does not have
    base_url: str | None = None  # the address if neither has one; None: our adapter's own
    needs_address: bool = False  # whether there is no default


_AZURE = LiteLLMHost("azure", ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"), ("AZURE_API_BASE",), needs_address=True)
_COHERE = LiteLLMHost("cohere", ("COHERE_API_KEY", "CO_API_KEY"), ("COHERE_API_BASE",))
_OLLAMA = LiteLLMHost("ollama", (), ("OLLAMA_API_BASE",), "http://localhost:11434")
_OPENAI = LiteLLMHost("openai", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE"))
_OPENAI_SERVER = LiteLLMHost("openai", needs_address=True)
_SAGEMAKER = LiteLLMHost("sagemaker")
_VERTEX = LiteLLMHost("vertex", (), ("VERTEXAI_API_BASE", "VERTEX_API_BASE"))


def _openai_host(base_url: str, *key_variables: str, address_variable: str | None = None) -> LiteLLMHost:
    """A host that speaks OpenAI's API and has no adapter of its own here."""
    return LiteLLMHost("openai", key_variables, (address_variable,) if address_variable else (), base_url)


HOSTS: Mapping[str, LiteLLMHost] = {
    "openai": _OPENAI,
    "text-completion-openai": _OPENAI,
    "custom_openai": _OPENAI_SERVER,
    "openai_like": _OPENAI_SERVER,
    "azure": _AZURE,
    "azure_text": _AZURE,
    "azure_ai": LiteLLMHost("azure", ("AZURE_AI_API_KEY",), ("AZURE_AI_API_BASE",), needs_address=True),
    "anthropic": LiteLLMHost("anthropic", ("ANTHROPIC_API_KEY",), ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")),
    "bedrock": LiteLLMHost("bedrock"),
    "bedrock_converse": LiteLLMHost("bedrock"),
    "sagemaker": _SAGEMAKER,
    "sagemaker_chat": _SAGEMAKER,
    "vertex_ai": _VERTEX,
    "vertex_ai_beta": _VERTEX,
    "gemini": LiteLLMHost("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("GEMINI_API_BASE",)),
    "cohere": _COHERE,
    "cohere_chat": _COHERE,
    "mistral": LiteLLMHost("mistral", ("MISTRAL_API_KEY",), ("MISTRAL_API_BASE", "MISTRAL_AZURE_API_BASE")),
    "codestral": LiteLLMHost("mistral", ("CODESTRAL_API_KEY",), ("CODESTRAL_API_BASE",), "https://codestral.mistral.ai/v1"),
    "groq": LiteLLMHost("groq", ("GROQ_API_KEY",), ("GROQ_API_BASE",)),
    "deepseek": LiteLLMHost("deepseek", ("DEEPSEEK_API_KEY",), ("DEEPSEEK_API_BASE",)),
    "together_ai": LiteLLMHost(
        "together",
        ("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
        ("TOGETHER_AI_API_BASE",),
    ),
    "fireworks_ai": LiteLLMHost(
        "fireworks",
        ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
        ("FIREWORKS_API_BASE",),
    ),
    "xai": LiteLLMHost("xai", ("XAI_API_KEY",), ("XAI_API_BASE",)),
    "perplexity": LiteLLMHost("perplexity", ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"), ("PERPLEXITY_API_BASE",)),
    "cerebras": LiteLLMHost("cerebras", ("CEREBRAS_API_KEY",), ("CEREBRAS_API_BASE",)),
    "openrouter": LiteLLMHost("openrouter", ("OPENROUTER_API_KEY", "OR_API_KEY"), ("OPENROUTER_API_BASE",)),
    "hyperbolic": LiteLLMHost("hyperbolic", ("HYPERBOLIC_API_KEY",), ("HYPERBOLIC_API_BASE",)),
    "moonshot": LiteLLMHost("moonshot", ("MOONSHOT_API_KEY",), ("MOONSHOT_API_BASE",)),
    "zai": LiteLLMHost("zai", ("ZAI_API_KEY",), ("ZAI_API_BASE",)),
    "dashscope": LiteLLMHost("alibaba", ("DASHSCOPE_API_KEY",), ("DASHSCOPE_API_BASE",)),
    # Engines of one's own.
    "hosted_vllm": LiteLLMHost("vllm", (), ("HOSTED_VLLM_API_BASE",), needs_address=True),
    "ollama": _OLLAMA,
    "ollama_chat": _OLLAMA,
    "huggingface": LiteLLMHost("tgi", ("HF_TOKEN", "HUGGINGFACE_API_KEY"), ("HF_API_BASE", "HUGGINGFACE_API_BASE"), needs_address=True),
    "lm_studio": LiteLLMHost("openai", (), ("LM_STUDIO_API_BASE",), needs_address=True),
    "llamafile": LiteLLMHost("llamacpp", (), ("LLAMAFILE_API_BASE",), "http://127.0.0.1:8080"),
    "xinference": LiteLLMHost("openai", (), ("XINFERENCE_API_BASE",), needs_address=True),
    "litellm_proxy": LiteLLMHost("openai", ("LITELLM_PROXY_API_KEY",), ("LITELLM_PROXY_API_BASE",), needs_address=True),
    "databricks": LiteLLMHost("openai", ("DATABRICKS_API_KEY",), ("DATABRICKS_API_BASE",), needs_address=True),
    # Hosts of OpenAI's API.
    "ai21_chat": _openai_host("https://api.ai21.com/studio/v1", "AI21_API_KEY", address_variable="AI21_API_BASE"),
    "deepinfra": _openai_host("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY", address_variable="DEEPINFRA_API_BASE"),
    "friendliai": _openai_host(
        "https://api.friendli.ai/serverless/v1", "FRIENDLIAI_API_KEY", "FRIENDLI_TOKEN", address_variable="FRIENDLI_API_BASE"
    ),
    "meta_llama": _openai_host("https://api.llama.com/compat/v1", "LLAMA_API_KEY", address_variable="LLAMA_API_BASE"),
    "nvidia_nim": _openai_host("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY", address_variable="NVIDIA_NIM_API_BASE"),
    "sambanova": _openai_host("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY", address_variable="SAMBANOVA_API_BASE"),
    "volcengine": _openai_host("https://ark.cn-beijing.volces.com/api/v3", "VOLCENGINE_API_KEY", address_variable="VOLCENGINE_API_BASE"),
}

# Names without a prefix, which LiteLLM finds in its lists of models.
_BARE_NAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?:ft:)?(?:gpt-|chatgpt-|o[1-9](?:-|$)|codex-|computer-use|text-embedding-|davinci-|babbage-)"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "vertex_ai"),
    (re.compile(r"command|embed-|rerank-|c4ai-"), "cohere"),
)


def split_model(name: str, provider: str | None) -> tuple[str, str] | None:
    """LiteLLM's provider and that provider's name of the model. `provider` is the entry's own. None: neither says who serves it."""
    prefix, slash, rest = name.partition("/")
    if provider is not None:
        return provider, rest if slash and prefix == provider else name
    if slash and rest:
        return prefix, rest
    return next(((host, name) for pattern, host in _BARE_NAMES if pattern.match(name)), None)
