"""Engines that already run on this machine, on their usual ports: offered, not taken."""

import json
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import httpx

from app.local.greeting import command
from providers import probing
from providers.catalogue import ADAPTERS
from providers.probing import Told

# By adapter.
_TITLES: Mapping[str, str] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "lmdeploy": "LMDeploy",
    "tgi": "Text Generation Inference",
    "llamacpp": "llama.cpp",
    "llamacpp_python": "llama-cpp-python",
    "ollama": "Ollama",
    "mini_sglang": "mini-sglang",
    "transformers": "transformers serve",
}
# vLLM, transformers serve and llama-cpp-python; llama.cpp and TGI; TGI; SGLang; mini-sglang; LMDeploy; Ollama.
USUAL_PORTS = (8000, 8080, 3000, 30000, 1919, 23333, 11434)
_PATIENCE_S = 0.4
_PATIENCE_IN_ALL_S = 1.2
_MOST_BYTES = 4 * 1024 * 1024
_MOST_MODELS = 3


def offers(ports: Collection[int], *, besides: Collection[int], known: Collection[tuple[str | None, int | None]]) -> list[str]:
    """A sentence and a command for each engine found that is not configured yet. `besides`: ports that are our own."""
    asked = [port for port in ports if port not in besides and not {("127.0.0.1", port), ("localhost", port)} & set(known)]
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        return [offer for offer in pool.map(_offer, asked) if offer]


def _offer(port: int) -> str | None:
    address = f"http://127.0.0.1:{port}"
    found = probing.recognise(_told(address))
    title = _TITLES.get(found.engine or "")
    if title is None:
        return None
    # What another program says is pasted into a shell later: only what cannot end the document there.
    models = [model.id for model in found.models or () if model.id.isprintable() and model.parent is None][:_MOST_MODELS]
    if not models:
        return f"{title} answers on {address}, without a model to serve."
    sections = "".join(
        f'[models.{json.dumps(model)}]\ntargets = [{{ provider = "{found.engine}", model = {json.dumps(model)} }}]\n' for model in models
    )
    spoken = found.engine if found.engine in ADAPTERS else "openai"
    return (
        f"{title} answers on {address}. To let callers use it:\n\n"
        f"{command()} apply --yes - <<'END'\n"
        f'[providers.{found.engine}]\nadapter = "{spoken}"\nbase_url = "{address}"\n{sections}END\n'
    )


def _told(address: str) -> Mapping[str, Told]:
    """All that recognise() wants to know; nothing of what does not list its models at once."""
    told: dict[str, Told] = {}
    until = time.monotonic() + _PATIENCE_IN_ALL_S
    with httpx.Client(timeout=_PATIENCE_S, trust_env=False) as client:
        while paths := [path for path in probing.paths(told) if path not in told]:
            for path in paths:
                if time.monotonic() > until:
                    return told
                try:
                    told[path] = _get(client, address + path, until)
                except httpx.HTTPError:
                    if path == probing.MODELS:
                        return {}
                    told[path] = Told(0, b"")
    return told


def _get(client: httpx.Client, url: str, until: float) -> Told:
    """Of an answer that has no end, or comes too late, nothing: any program may listen on these ports."""
    body = b""
    with client.stream("GET", url) as answer:
        for block in answer.iter_bytes():
            body += block
            if len(body) > _MOST_BYTES or time.monotonic() > until:
                return Told(answer.status_code, b"")
    return Told(answer.status_code, body)
