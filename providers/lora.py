"""LoRA adapters: how each engine is told which one to use with a model."""

from collections.abc import Callable, Mapping

from providers.errors import Missing, Unreachable, Unsupported
from providers.wire import Body

# By their names, a LoRA adapter's number where the engine numbers them; None: it is not known which there are.
Known = Mapping[str, int | None] | None

# Writes what else names the adapter into the body, and gives the name that stands for the model.
Naming = Callable[[str, str, Body, Known], str]


def alone(model: str, lora: str, body: Body, known: Known) -> str:
    """The adapter is a model of its own name. vLLM, LMDeploy; TGI takes any other name than its model's for an adapter's."""
    return lora


def after_base(model: str, lora: str, body: Body, known: Known) -> str:
    """SGLang, read 2026-11: https://docs.sglang.io/advanced_features/lora.html."""
    return f"{model}:{lora}"


def by_number(model: str, lora: str, body: Body, known: Known) -> str:
    """llama.cpp: those that are not in the list get scale 0; its embeddings and ranks read none.

    Source: tools/server/README.md, read 2026-11.
    """
    if body.keys().isdisjoint(("messages", "prompt")):
        raise Unsupported("`model` cannot be honoured by llama.cpp: only what it writes can be asked of a LoRA adapter.", param="model")
    number = (known or {}).get(lora)
    if number is None:
        raise Unreachable(f"Under which number the engine has the LoRA adapter {lora!r:.100} is not known yet: it has not told.")
    body["lora"] = [{"id": number, "scale": 1.0}]
    return model


def not_yet(model: str, lora: str, body: Body, known: Known) -> str:
    """Of an engine that is not found yet: how it is asked for one nobody knows."""
    raise Unreachable(f"How the engine is asked for the LoRA adapter {lora!r:.100} is not known yet: it has not told what it is.")


# By adapter; others have no way to be asked for a LoRA adapter.
NAMINGS: Mapping[str, Naming] = {
    "vllm": alone,
    "lmdeploy": alone,
    "tgi": alone,
    "sglang": after_base,
    "llamacpp": by_number,
    "auto": not_yet,
}


def check(lora: str, known: Known, who: str) -> None:
    """Raises Missing for one of which it is known that it is not there: no engine is to be troubled with it.

    Which there are is not said: callers are told this, and adapters may be named for what others do.
    """
    if known is not None and lora not in known:
        raise Missing(f"{who} has no LoRA adapter {lora!r:.100}. An administrator can load it.", told=404, param="model")
