"""Engines that already run on this machine, on their usual ports: suggested, never added without the operator."""

import json
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import httpx2

from app.supervisor.machine.narthex_command import narthex_command
from providers import probing
from providers.adapters.probe import ProbeResponse
from providers.catalogue import ADAPTERS

# The engines' own spelling of their names, by adapter.
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
_REQUEST_TIMEOUT_S = 0.4
_TOTAL_TIMEOUT_S = 1.2
_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_MODELS = 3


def find_engines(ports: Collection[int], *, own_ports: Collection[int], configured: Collection[tuple[str | None, int | None]]) -> list[str]:
    """A sentence and a command for each engine found that is not configured yet. `own_ports` are ours and not probed."""
    candidates = [port for port in ports if port not in own_ports and not {("127.0.0.1", port), ("localhost", port)} & set(configured)]
    with ThreadPoolExecutor(max(1, len(candidates))) as pool:
        return [suggestion for suggestion in pool.map(_suggest_provider, candidates) if suggestion]


def _suggest_provider(port: int) -> str | None:
    address = f"http://127.0.0.1:{port}"
    engine = probing.identify_engine(_probe(address))
    title = _TITLES.get(engine.engine or "")
    if title is None:
        return None
    # The operator pastes this into a shell: names from another program must not be able to end the here-document.
    models = [model.id for model in engine.models or () if model.id.isprintable() and model.parent is None][:_MAX_MODELS]
    if not models:
        return f"{title} answers on {address}, but serves no model."
    sections = "".join(
        f'[models.{json.dumps(model)}]\ntargets = [{{ provider = "{engine.engine}", model = {json.dumps(model)} }}]\n' for model in models
    )
    adapter = engine.engine if engine.engine in ADAPTERS else "openai"
    return (
        f"{title} answers on {address}. To let callers use it:\n\n"
        f"{narthex_command()} apply --yes - <<'END'\n"
        f'[providers.{engine.engine}]\nadapter = "{adapter}"\nbase_url = "{address}"\n{sections}END\n'
    )


def _probe(address: str) -> Mapping[str, ProbeResponse]:
    """The responses that identify_engine() needs; empty if the first request for a list of models fails."""
    responses: dict[str, ProbeResponse] = {}
    deadline = time.monotonic() + _TOTAL_TIMEOUT_S
    # Plain HTTP: without verify=False each engine would cost the 30 ms of loading the certificate authorities.
    with httpx2.Client(timeout=_REQUEST_TIMEOUT_S, trust_env=False, verify=False) as client:
        while paths := [path for path in probing.next_paths(responses) if path not in responses]:
            for path in paths:
                if time.monotonic() > deadline:
                    return responses
                try:
                    responses[path] = _fetch(client, address + path, deadline)
                except httpx2.HTTPError:
                    if path == probing.MODELS_PATH:
                        return {}
                    responses[path] = ProbeResponse(0, b"")
    return responses


def _fetch(client: httpx2.Client, url: str, deadline: float) -> ProbeResponse:
    """The response; with an empty body if it is too long or too late, because any program may listen on these ports."""
    body = b""
    with client.stream("GET", url) as response:
        for block in response.iter_bytes():
            body += block
            if len(body) > _MAX_BODY_BYTES or time.monotonic() > deadline:
                return ProbeResponse(response.status_code, b"")
    return ProbeResponse(response.status_code, body)
