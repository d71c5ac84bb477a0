"""LoRA adapters: how each engine is told which one to use with a model."""

from collections.abc import Callable, Mapping

from providers.canonical.errors import Unreachable, Unsupported, UpstreamNotFound
from providers.canonical.raw_json import Body

# By their names, a LoRA adapter's number where the engine numbers them; None: it is not known which there are.
LoadedAdapters = Mapping[str, int | None] | None

# Writes what else names the adapter into the body, and gives the name that stands for the model.
AdapterNaming = Callable[[str, str, Body, LoadedAdapters], str]


def as_model_name(model: str, lora: str, body: Body, loaded: LoadedAdapters) -> str:
    """The adapter is a model of its own name. vLLM, LMDeploy; TGI takes any other name than its model's for an adapter's."""
    return lora


def as_model_suffix(model: str, lora: str, body: Body, loaded: LoadedAdapters) -> str:
    """SGLang, read 2026-11: https://docs.sglang.io/advanced_features/lora.html."""
    return f"{model}:{lora}"


def by_adapter_id(model: str, lora: str, body: Body, loaded: LoadedAdapters) -> str:
    """llama.cpp: those that are not in the list get scale 0; its embeddings and ranks read none.

    Source: tools/server/README.md, read 2026-11.
    """
    if body.keys().isdisjoint(("messages", "prompt")):
        raise Unsupported("`model` cannot be honoured by llama.cpp: only what it writes can be asked of a LoRA adapter.", param="model")
    adapter_id = (loaded or {}).get(lora)
    if adapter_id is None:
        raise Unreachable(f"Under which number the engine has the LoRA adapter {lora!r:.100} is not known yet: it has not told.")
    body["lora"] = [{"id": adapter_id, "scale": 1.0}]
    return model


def engine_unknown(model: str, lora: str, body: Body, loaded: LoadedAdapters) -> str:
    """Of an engine that is not found yet: how it is asked for one nobody knows."""
    raise Unreachable(f"How the engine is asked for the LoRA adapter {lora!r:.100} is not known yet: it has not told what it is.")


# By adapter; others have no way to be asked for a LoRA adapter.
ADAPTER_NAMINGS: Mapping[str, AdapterNaming] = {
    "vllm": as_model_name,
    "lmdeploy": as_model_name,
    "tgi": as_model_name,
    "sglang": as_model_suffix,
    "llamacpp": by_adapter_id,
    "auto": engine_unknown,
}


def check_loaded(lora: str, loaded: LoadedAdapters, provider_name: str) -> None:
    """Raises Missing for one of which it is known that it is not there: no engine is to be troubled with it.

    Which there are is not said: callers are told this, and adapters may be named for what others do.
    """
    if loaded is not None and lora not in loaded:
        raise UpstreamNotFound(
            f"{provider_name} has no LoRA adapter {lora!r:.100}. An administrator can load it.", upstream_status=404, param="model"
        )
