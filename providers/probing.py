"""What an endpoint is: which paths to ask by GET, and what their answers say. No I/O."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from providers.wire import UNREADABLE

MODELS = "/v1/models"
# Asked where the list of models does not say whose it is.
_TELLING = ("/info", "/props", "/api/version", "/server_info", "/engines")
_MOST_MODELS = 10_000


class Told(NamedTuple):
    """What a path answered."""

    status: int
    body: bytes


class Listed(Struct, frozen=True):
    """A model that an endpoint lists. `parent`: of which model it is a LoRA adapter."""

    id: str
    context_length: int | None = None
    parent: str | None = None


class Found(Struct, frozen=True):
    """`engine`: the name of its adapter; None: none that we know. `version` as it was told, None where it was not, or by a router only.

    `models` None: it does not list them to us. `router`: what stands before the engines. `loras`: what each LoRA adapter is asked for by,
    for engines that number them; None: not known which there are.
    """

    engine: str | None = None
    version: str | None = None
    models: tuple[Listed, ...] | None = None
    router: str | None = None
    loras: Mapping[str, int | None] | None = None


class Habits(NamedTuple):
    """`alive`: the cheap path that says whether it can be asked. `more`: what else is asked of it once it is known."""

    alive: str
    more: tuple[str, ...] = ()


# By adapter: the engines that may be asked; hosts are not. SGLang's /health and TGI's run a generation. /reference/engines.md 1.2, 1.4.
HABITS: Mapping[str, Habits] = {
    "auto": Habits(MODELS),
    "vllm": Habits("/health", ("/version", "/engines")),
    "sglang": Habits("/ready", ("/server_info", "/get_server_info")),
    "lmdeploy": Habits("/health", ("/nodes/status",)),
    "tgi": Habits("/info", ("/info",)),
    "llamacpp": Habits("/health", ("/props", "/lora-adapters")),
    "llamacpp_python": Habits(MODELS),
    "ollama": Habits("/api/version", ("/api/version",)),
    "mini_sglang": Habits("/v1"),
    "transformers": Habits("/health"),
    "sandbox": Habits("/health", ("/version",)),
}

# Whom engines name as the owner of their models (vLLM 0.33, SGLang 0.5.23, LMDeploy 0.18, llama.cpp, mini-sglang; read 2026-11).
_OWNERS: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "lmdeploy": "lmdeploy",
    "llamacpp": "llamacpp",
    "mini-sglang": "mini_sglang",
    "narthex-sandbox": "sandbox",
}


def paths(told: Mapping[str, Told]) -> tuple[str, ...]:
    """What is to be asked, given what is told so far; those that are told already are among them. At first: the list of models."""
    if MODELS not in told:
        return (MODELS,)
    engine = _owner(_cards(told))
    if engine is not None:
        return (MODELS, *HABITS[engine].more)
    asked = (MODELS, *_TELLING)
    # A description of every route is long: it is asked of those alone that say nothing shorter.
    return (*asked, "/openapi.json") if told.keys() >= set(asked) and _shape(told) is None else asked


def recognise(told: Mapping[str, Told]) -> Found:
    """What answers so. What cannot be read says nothing."""
    cards = _cards(told)
    engine = _owner(cards) or _shape(told)
    models = None if cards is None else tuple(_listed(card) for card in cards)
    router = _router(told, engine, models)
    version = None if router or engine is None else _VERSIONS.get(engine, _no_version)(told)
    return Found(engine, version, models, router, _loras(engine, models, router, told))


def is_other(found: Found, models: Told) -> bool:
    """Whether the list of models is not as it was, or another engine's."""
    cards = _cards({MODELS: models})
    if cards is None:
        return False
    return tuple(_listed(card) for card in cards) != found.models or _owner(cards) not in (None, found.engine)


def is_ready(told: Told) -> bool:
    """Whether an answer to `alive` says that it takes requests. LMDeploy answers 503 to them while it sleeps."""
    return told.status < 500 and _object(told).get("status") != "sleeping"


def _owner(cards: list[dict[str, Any]] | None) -> str | None:
    owners = {_OWNERS.get(str(card.get("owned_by"))) for card in cards or ()}
    return owners.pop() if len(owners) == 1 else None


def _shape(told: Mapping[str, Told]) -> str | None:
    """The engine of which these answers have the shape."""
    return next((engine for engine, has_shape in _SHAPES if has_shape(told)), None)


def _is_sglang(told: Mapping[str, Told]) -> bool:
    about = _at(told, "/server_info")
    return "version" in about and "model_path" in about


def _is_tgi(told: Mapping[str, Told]) -> bool:
    about = _at(told, "/info")
    return "model_id" in about and "max_total_tokens" in about


def _is_llamacpp(told: Mapping[str, Told]) -> bool:
    return "default_generation_settings" in _at(told, "/props")


def _is_ollama(told: Mapping[str, Told]) -> bool:
    """Others' servers answer every path with the same."""
    return set(_at(told, "/api/version")) == {"version"} and not _at(told, "/info")


def _is_llamacpp_python(told: Mapping[str, Told]) -> bool:
    """It says "me" of every model, and has a word that others do not. Source: llama_cpp/server/app.py (0.3.36), read 2026-11."""
    cards = _cards(told)
    return bool(cards) and all(card.get("owned_by") == "me" and "permissions" in card for card in cards or ())


def _is_transformers(told: Mapping[str, Told]) -> bool:
    """Source: transformers/cli/serving/server.py (5.19), read 2026-11."""
    routes = _at(told, "/openapi.json").get("paths")
    return isinstance(routes, dict) and {"/load_model", "/reset", "/v1/chat/completions"} <= cast("dict[str, Any]", routes).keys()


_SHAPES: tuple[tuple[str, Callable[[Mapping[str, Told]], bool]], ...] = (
    ("sglang", _is_sglang),
    ("tgi", _is_tgi),
    ("llamacpp", _is_llamacpp),
    ("ollama", _is_ollama),
    ("llamacpp_python", _is_llamacpp_python),
    ("transformers", _is_transformers),
)


def _router(told: Mapping[str, Told], engine: str | None, models: tuple[Listed, ...] | None) -> str | None:
    """production-stack has a /version of its own, and lists vLLM's models without their lengths: main_router.py, read 2026-11."""
    if _is_list(told.get("/engines")):
        return "production-stack"
    if engine == "lmdeploy" and told.get("/nodes/status", _NOTHING).status == 200:
        return "lmdeploy-proxy"
    if engine == "vllm" and models and not any(model.context_length for model in models):
        return "unknown"
    return None


def _no_version(told: Mapping[str, Told]) -> None:
    return None


def _version_at(*asked: str, word: str = "version") -> Callable[[Mapping[str, Told]], str | None]:
    def find(told: Mapping[str, Told]) -> str | None:
        said = (_at(told, path).get(word) for path in asked)
        return next((each[:100] for each in said if isinstance(each, str) and each), None)

    return find


_VERSIONS: Mapping[str, Callable[[Mapping[str, Told]], str | None]] = {
    "vllm": _version_at("/version"),
    "sandbox": _version_at("/version"),
    "sglang": _version_at("/server_info", "/get_server_info"),
    "tgi": _version_at("/info"),
    "llamacpp": _version_at("/props", word="build_info"),
    "ollama": _version_at("/api/version"),
}


def _loras(
    engine: str | None, models: tuple[Listed, ...] | None, router: str | None, told: Mapping[str, Told]
) -> Mapping[str, int | None] | None:
    """SGLang lists them among its models in later versions only; TGI does not; LMDeploy does not say which models are adapters."""
    if engine == "llamacpp":
        return _numbered(told.get("/lora-adapters"))
    if models is None or engine not in ("vllm", "sglang", "lmdeploy"):
        return None
    adapters: dict[str, int | None] = {model.id: None for model in models if engine == "lmdeploy" or model.parent is not None}
    # Routers tell of an engine's models in words of their own, and not all say which are adapters.
    return None if not adapters and (engine == "sglang" or router is not None) else adapters


def _numbered(told: Told | None) -> dict[str, int | None] | None:
    """llama.cpp tells of each its number and its file: an adapter's name is the file's, without its ending, or the whole path."""
    if not _is_list(told):
        return None
    files: dict[str, int] = {}
    for each in cast("list[object]", _read(told)):
        said = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        if isinstance(said.get("path"), str) and type(said.get("id")) is int:
            files[said["path"]] = said["id"]
    # Of two files of one name it is not known which is meant.
    met = Counter(PurePosixPath(path).stem for path in files)
    return {**files, **{name: number for path, number in files.items() if met[name := PurePosixPath(path).stem] == 1}}


def _listed(card: dict[str, Any]) -> Listed:
    meta = card.get("meta")
    trained = cast("dict[str, Any]", meta).get("n_ctx_train") if isinstance(meta, dict) else None
    length, parent = card.get("max_model_len") or trained, card.get("parent")
    is_length, is_name = type(length) is int and length > 0, isinstance(parent, str) and parent
    return Listed(card["id"], length if is_length else None, parent if is_name else None)


def _cards(told: Mapping[str, Told]) -> list[dict[str, Any]] | None:
    entries = _at(told, MODELS).get("data")
    if not isinstance(entries, list):
        return None
    cards = (cast("dict[str, Any]", each) for each in cast("list[object]", entries)[:_MOST_MODELS] if isinstance(each, dict))
    return [card for card in cards if isinstance(card.get("id"), str)]


_NOTHING = Told(0, b"")


def _at(told: Mapping[str, Told], path: str) -> dict[str, Any]:
    return _object(told.get(path, _NOTHING)) if told.get(path, _NOTHING).status == 200 else {}


def _object(told: Told) -> dict[str, Any]:
    said = _read(told)
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def _is_list(told: Told | None) -> bool:
    return told is not None and told.status == 200 and isinstance(_read(told), list)


def _read(told: Told | None) -> object:
    try:
        return msgspec.json.decode(b"" if told is None else told.body)
    except UNREADABLE:
        return None
