"""LoRA adapters: how each engine is told which one to use with a model."""

from collections.abc import Callable, Mapping

from providers.errors import Missing, Unreachable
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
    """llama.cpp: those that are not in the list get scale 0. Source: tools/server/README.md, read 2026-11."""
    number = (known or {}).get(lora)
    if number is None:
        raise Unreachable(f"Under which number the engine has the LoRA adapter {lora!r:.100} is not known yet: it has not told.")
    body["lora"] = [{"id": number, "scale": 1.0}]
    return model


# By adapter; others have no way to be asked for a LoRA adapter.
NAMINGS: Mapping[str, Naming] = {
    "vllm": alone,
    "lmdeploy": alone,
    "tgi": alone,
    "sglang": after_base,
    "llamacpp": by_number,
}


def check(lora: str, known: Known, who: str) -> None:
    """Raises Missing for one of which it is known that it is not there: no engine is to be troubled with it."""
    if known is not None and lora not in known:
        there = ", ".join(sorted(known)[:20]) or "none"
        raise Missing(f"There is no LoRA adapter {lora!r:.100} at {who}. There are: {there}.", told=404, param="model")
