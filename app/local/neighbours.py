"""Engines that already run on this machine, on their usual ports: offered, not taken."""

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import httpx

from app.local.greeting import command
from providers.catalogue import ADAPTERS


class Usual(NamedTuple):
    """An engine and where it is usually found. `path` answers with a JSON object that has `word`, which tells it from others there."""

    title: str
    adapter: str
    port: int
    path: str
    word: str


USUAL = (
    Usual("Ollama", "ollama", 11434, "/api/version", "version"),
    Usual("vLLM", "vllm", 8000, "/version", "version"),
    Usual("llama.cpp", "llamacpp", 8080, "/props", "default_generation_settings"),
)
_PATIENCE_S = 0.4
_MOST_MODELS = 3


def offers(usual: Collection[Usual], *, besides: Collection[int], known: Collection[tuple[str | None, int | None]]) -> list[str]:
    """A sentence and a command for each engine found that is not configured yet. `besides`: ports that are our own."""
    asked = [each for each in usual if each.port not in besides and not {("127.0.0.1", each.port), ("localhost", each.port)} & set(known)]
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        return [offer for offer in pool.map(_offer, asked) if offer]


def _offer(usual: Usual) -> str | None:
    address = f"http://127.0.0.1:{usual.port}"
    if usual.word not in _ask(address + usual.path):
        return None
    models = _models(_ask(address + "/v1/models"))
    if not models:
        return f"{usual.title} answers on {address}, without a model to serve."
    sections = "".join(
        f'[models.{json.dumps(model)}]\ntargets = [{{ provider = "{usual.adapter}", model = {json.dumps(model)} }}]\n' for model in models
    )
    spoken = usual.adapter if usual.adapter in ADAPTERS else "openai"
    return (
        f"{usual.title} answers on {address}. To let callers use it:\n\n"
        f"{command()} apply --yes - <<'END'\n"
        f'[providers.{usual.adapter}]\nadapter = "{spoken}"\nbase_url = "{address}"\n{sections}END\n'
    )


def _models(listed: dict[str, Any]) -> list[str]:
    entries = listed.get("data")
    if not isinstance(entries, list):
        return []
    names = [cast(Any, each).get("id") for each in cast(list[object], entries) if isinstance(each, dict)]
    # What another program says is pasted into a shell later: only what cannot end the document there.
    return [name for name in names if isinstance(name, str) and name.isprintable()][:_MOST_MODELS]


def _ask(url: str) -> dict[str, Any]:
    try:
        answer = httpx.get(url, timeout=_PATIENCE_S, trust_env=False)
        told = answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return {}
    return cast(dict[str, Any], told) if isinstance(told, dict) else {}
