"""LoRA adapters of llama.cpp's server, which numbers them."""

from providers.adapters.lora import LoadedAdapters
from providers.canonical.errors import Unreachable, Unsupported
from providers.canonical.raw_json import Body


def select_adapter_by_id(model: str, lora: str, body: Body, loaded: LoadedAdapters) -> str:
    """Writes the field `lora`: adapters that are not in that list get scale 0. Its embeddings and reranking ignore the field.

    Source: tools/server/README.md, read 2026-11. Raises Unsupported and Unreachable.
    """
    if body.keys().isdisjoint(("messages", "prompt")):
        raise Unsupported("`model` cannot be honoured by llama.cpp: a LoRA adapter works only where it generates text.", param="model")
    adapter_id = (loaded or {}).get(lora)
    if adapter_id is None:
        raise Unreachable(f"The engine's id of the LoRA adapter {lora!r:.100} is not known yet: it has not listed its adapters.")
    body["lora"] = [{"id": adapter_id, "scale": 1.0}]
    return model
