"""What an endpoint is: which paths to ask by GET, and what their answers say. No I/O."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from providers.canonical.raw_json import DECODE_ERRORS

MODELS_PATH = "/v1/models"
# Asked where the list of models does not say whose it is.
_IDENTIFYING_PATHS = ("/info", "/props", "/api/version", "/server_info", "/engines")
_MAX_MODELS = 10_000


class ProbeResponse(NamedTuple):
    """What a path answered."""

    status: int
    body: bytes


class ListedModel(Struct, frozen=True):
    """A model that an endpoint lists. `parent`: of which model it is a LoRA adapter."""

    id: str
    context_length: int | None = None
    parent: str | None = None


class ProbeResult(Struct, frozen=True):
    """`engine`: the name of its adapter; None: none that we know. `version` as it was told, None where it was not, or by a router only.

    `models` None: it does not list them to us. `router`: what stands before the engines. `loras`: what each LoRA adapter is asked for by,
    for engines that number them; None: not known which there are.
    """

    engine: str | None = None
    version: str | None = None
    models: tuple[ListedModel, ...] | None = None
    router: str | None = None
    lora_adapters: Mapping[str, int | None] | None = None


class EngineProbe(NamedTuple):
    """`alive`: the cheap path that says whether it can be asked. `more`: what else is asked of it once it is known."""

    health_path: str
    detail_paths: tuple[str, ...] = ()


# By adapter: the engines that may be asked; hosts are not. SGLang's /health and TGI's run a generation. /reference/engines.md 1.2, 1.4.
ENGINE_PROBES: Mapping[str, EngineProbe] = {
    "auto": EngineProbe(MODELS_PATH),
    "vllm": EngineProbe("/health", ("/version", "/engines")),
    "sglang": EngineProbe("/ready", ("/server_info", "/get_server_info")),
    "lmdeploy": EngineProbe("/health", ("/nodes/status",)),
    "tgi": EngineProbe("/info", ("/info",)),
    "llamacpp": EngineProbe("/health", ("/props", "/lora-adapters")),
    "llamacpp_python": EngineProbe(MODELS_PATH),
    "ollama": EngineProbe("/api/version", ("/api/version",)),
    "mini_sglang": EngineProbe("/v1"),
    "transformers": EngineProbe("/health"),
    "sandbox": EngineProbe("/health", ("/version",)),
}

# Whom engines name as the owner of their models (vLLM 0.33, SGLang 0.5.23, LMDeploy 0.18, llama.cpp, mini-sglang; read 2026-11).
_ENGINE_BY_OWNER: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "lmdeploy": "lmdeploy",
    "llamacpp": "llamacpp",
    "mini-sglang": "mini_sglang",
    "narthex-sandbox": "sandbox",
}


def next_paths(responses: Mapping[str, ProbeResponse]) -> tuple[str, ...]:
    """What is to be asked, given what is told so far; those that are told already are among them. At first: the list of models."""
    if MODELS_PATH not in responses:
        return (MODELS_PATH,)
    engine = _engine_by_owner(_cards(responses))
    if engine is not None:
        return (MODELS_PATH, *ENGINE_PROBES[engine].detail_paths)
    probe_paths = (MODELS_PATH, *_IDENTIFYING_PATHS)
    # A description of every route is long: it is asked of those alone that say nothing shorter.
    return (*probe_paths, "/openapi.json") if responses.keys() >= set(probe_paths) and _engine_by_shape(responses) is None else probe_paths


def identify_engine(responses: Mapping[str, ProbeResponse]) -> ProbeResult:
    """What answers so. What cannot be read says nothing."""
    cards = _cards(responses)
    engine = _engine_by_owner(cards) or _engine_by_shape(responses)
    models = None if cards is None else tuple(_listed_model(card) for card in cards)
    router = _router(responses, engine, models)
    version = None if router or engine is None else _VERSIONS.get(engine, _no_version)(responses)
    return ProbeResult(engine, version, models, router, _lora_adapters(engine, models, router, responses))


def has_changed(known: ProbeResult, response: ProbeResponse) -> bool:
    """Whether the list of models is not as it was, or another engine's."""
    cards = _cards({MODELS_PATH: response})
    if cards is None:
        return False
    return tuple(_listed_model(card) for card in cards) != known.models or _engine_by_owner(cards) not in (None, known.engine)


def is_ready(response: ProbeResponse) -> bool:
    """Whether an answer to `alive` says that it takes requests. LMDeploy answers 503 to them while it sleeps."""
    return response.status < 500 and _object(response).get("status") != "sleeping"


def _engine_by_owner(cards: list[dict[str, Any]] | None) -> str | None:
    owners = {_ENGINE_BY_OWNER.get(str(card.get("owned_by"))) for card in cards or ()}
    return owners.pop() if len(owners) == 1 else None


def _engine_by_shape(responses: Mapping[str, ProbeResponse]) -> str | None:
    """The engine of which these answers have the shape."""
    return next((engine for engine, has_shape in _SHAPE_TESTS if has_shape(responses)), None)


def _is_sglang(responses: Mapping[str, ProbeResponse]) -> bool:
    about = _object_at(responses, "/server_info")
    return "version" in about and "model_path" in about


def _is_tgi(responses: Mapping[str, ProbeResponse]) -> bool:
    about = _object_at(responses, "/info")
    return "model_id" in about and "max_total_tokens" in about


def _is_llamacpp(responses: Mapping[str, ProbeResponse]) -> bool:
    return "default_generation_settings" in _object_at(responses, "/props")


def _is_ollama(responses: Mapping[str, ProbeResponse]) -> bool:
    """Others' servers answer every path with the same."""
    return set(_object_at(responses, "/api/version")) == {"version"} and not _object_at(responses, "/info")


def _is_llamacpp_python(responses: Mapping[str, ProbeResponse]) -> bool:
    """It says "me" of every model, and has a word that others do not. Source: llama_cpp/server/app.py (0.3.36), read 2026-11."""
    cards = _cards(responses)
    return bool(cards) and all(card.get("owned_by") == "me" and "permissions" in card for card in cards or ())


def _is_transformers(responses: Mapping[str, ProbeResponse]) -> bool:
    """Source: transformers/cli/serving/server.py (5.19), read 2026-11."""
    routes = _object_at(responses, "/openapi.json").get("paths")
    return isinstance(routes, dict) and {"/load_model", "/reset", "/v1/chat/completions"} <= cast("dict[str, Any]", routes).keys()


_SHAPE_TESTS: tuple[tuple[str, Callable[[Mapping[str, ProbeResponse]], bool]], ...] = (
    ("sglang", _is_sglang),
    ("tgi", _is_tgi),
    ("llamacpp", _is_llamacpp),
    ("ollama", _is_ollama),
    ("llamacpp_python", _is_llamacpp_python),
    ("transformers", _is_transformers),
)


def _router(responses: Mapping[str, ProbeResponse], engine: str | None, models: tuple[ListedModel, ...] | None) -> str | None:
    """production-stack has a /version of its own, and lists vLLM's models without their lengths: main_router.py, read 2026-11."""
    if _is_list(responses.get("/engines")):
        return "production-stack"
    if engine == "lmdeploy" and responses.get("/nodes/status", _NO_RESPONSE).status == 200:
        return "lmdeploy-proxy"
    if engine == "vllm" and models and not any(model.context_length for model in models):
        return "unknown"
    return None


def _no_version(responses: Mapping[str, ProbeResponse]) -> None:
    return None


def _version_at(*version_paths: str, field: str = "version") -> Callable[[Mapping[str, ProbeResponse]], str | None]:
    def find(responses: Mapping[str, ProbeResponse]) -> str | None:
        values = (_object_at(responses, path).get(field) for path in version_paths)
        return next((each[:100] for each in values if isinstance(each, str) and each), None)

    return find


_VERSIONS: Mapping[str, Callable[[Mapping[str, ProbeResponse]], str | None]] = {
    "vllm": _version_at("/version"),
    "sandbox": _version_at("/version"),
    "sglang": _version_at("/server_info", "/get_server_info"),
    "tgi": _version_at("/info"),
    "llamacpp": _version_at("/props", field="build_info"),
    "ollama": _version_at("/api/version"),
}


def _lora_adapters(
    engine: str | None, models: tuple[ListedModel, ...] | None, router: str | None, responses: Mapping[str, ProbeResponse]
) -> Mapping[str, int | None] | None:
    """SGLang lists them among its models in later versions only; TGI does not; LMDeploy does not say which models are adapters."""
    if engine == "llamacpp":
        return _llamacpp_adapters(responses.get("/lora-adapters"))
    if models is None or engine not in ("vllm", "sglang", "lmdeploy"):
        return None
    adapters: dict[str, int | None] = {model.id: None for model in models if engine == "lmdeploy" or model.parent is not None}
    # Routers tell of an engine's models in words of their own, and not all say which are adapters.
    return None if not adapters and (engine == "sglang" or router is not None) else adapters


def _llamacpp_adapters(response: ProbeResponse | None) -> dict[str, int | None] | None:
    """llama.cpp tells of each its number and its file: an adapter's name is the file's, without its ending, or the whole path."""
    if not _is_list(response):
        return None
    files: dict[str, int] = {}
    for each in cast("list[object]", _decode(response)):
        entry = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        if isinstance(entry.get("path"), str) and type(entry.get("id")) is int:
            files[entry["path"]] = entry["id"]
    # Of two files of one name it is not known which is meant.
    stem_counts = Counter(PurePosixPath(path).stem for path in files)
    return {**files, **{name: number for path, number in files.items() if stem_counts[name := PurePosixPath(path).stem] == 1}}


def _listed_model(card: dict[str, Any]) -> ListedModel:
    meta = card.get("meta")
    trained = cast("dict[str, Any]", meta).get("n_ctx_train") if isinstance(meta, dict) else None
    length, parent = card.get("max_model_len") or trained, card.get("parent")
    is_length, is_name = type(length) is int and length > 0, isinstance(parent, str) and parent
    return ListedModel(card["id"], length if is_length else None, parent if is_name else None)


def _cards(responses: Mapping[str, ProbeResponse]) -> list[dict[str, Any]] | None:
    entries = _object_at(responses, MODELS_PATH).get("data")
    if not isinstance(entries, list):
        return None
    cards = (cast("dict[str, Any]", each) for each in cast("list[object]", entries)[:_MAX_MODELS] if isinstance(each, dict))
    return [card for card in cards if isinstance(card.get("id"), str)]


_NO_RESPONSE = ProbeResponse(0, b"")


def _object_at(responses: Mapping[str, ProbeResponse], path: str) -> dict[str, Any]:
    return _object(responses.get(path, _NO_RESPONSE)) if responses.get(path, _NO_RESPONSE).status == 200 else {}


def _object(response: ProbeResponse) -> dict[str, Any]:
    decoded = _decode(response)
    return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}


def _is_list(response: ProbeResponse | None) -> bool:
    return response is not None and response.status == 200 and isinstance(_decode(response), list)


def _decode(response: ProbeResponse | None) -> object:
    try:
        return msgspec.json.decode(b"" if response is None else response.body)
    except DECODE_ERRORS:
        return None
