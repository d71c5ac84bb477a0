"""LoRA adapters of SGLang."""

from providers.adapters.lora import LoadedAdapters
from providers.canonical.raw_json import Body


def name_adapter_as_suffix(model: str, lora: str, body: Body, loaded: LoadedAdapters) -> str:
    """MODEL:ADAPTER. Source: https://docs.sglang.io/advanced_features/lora.html, read 2026-11."""
    return f"{model}:{lora}"
