"""Probing: which paths of an endpoint to request by GET, and what it is by its responses. No I/O.

The list of models comes first, because most engines set owned_by. Otherwise an engine is recognised by its other responses. Whatever
cannot be read counts as unknown.
"""

from collections.abc import Mapping
from typing import Any, cast

from providers.adapters.probe import (
    MODELS_PATH,
    ListedModel,
    ProbeResponse,
    ProbeResponses,
    ProbeResult,
    decode_object,
    list_at,
    model_cards,
)
from providers.catalogue import ENGINE_PROBES

# Requested where the list of models does not identify the engine.
_IDENTIFYING_PATHS = ("/info", "/props", "/api/version", "/server_info", "/engines")
# Large: describes every route. Requested only of engines that report nothing shorter.
_DESCRIPTION_PATH = "/openapi.json"

_CREDENTIAL_STATUSES = frozenset({401, 403, 407})
_NOT_FOUND = frozenset({"not found", "not found.", "file not found", "404", "page not found", "404 page not found", "method not allowed"})

# vLLM 0.33, SGLang 0.5.23, LMDeploy 0.18, llama.cpp, mini-sglang; read 2026-11.
_ENGINE_BY_OWNER: Mapping[str, str] = {probe.owner: engine for engine, probe in ENGINE_PROBES.items() if probe.owner is not None}


def next_paths(responses: ProbeResponses) -> tuple[str, ...]:
    """The paths to request, by the responses so far; those that were requested are among them. At first: the list of models."""
    if MODELS_PATH not in responses:
        return (MODELS_PATH,)
    engine = _engine_by_owner(model_cards(responses))
    if engine is not None:
        return (MODELS_PATH, *ENGINE_PROBES[engine].detail_paths)
    paths = (MODELS_PATH, *_IDENTIFYING_PATHS)
    return (*paths, _DESCRIPTION_PATH) if responses.keys() >= set(paths) and _engine_by_responses(responses) is None else paths


def identify_engine(responses: ProbeResponses) -> ProbeResult:
    """Returns the engine, models and router of an endpoint with these responses."""
    cards = model_cards(responses)
    engine = _engine_by_owner(cards) or _engine_by_responses(responses)
    models = None if cards is None else tuple(_listed_model(card) for card in cards)
    if engine is None:
        return ProbeResult(None, None, models, _known_router(responses))
    probe = ENGINE_PROBES[engine]
    router = _known_router(responses) or probe.find_router(responses, models or ())
    version = None if router else probe.read_version(responses)
    lora_adapters = probe.read_lora_adapters(responses, models, router)
    return ProbeResult(engine, version, models, router, lora_adapters, probe.read_image_support(responses))


def has_changed(known: ProbeResult, response: ProbeResponse) -> bool:
    """Whether a list of models differs from the known one, or is another engine's."""
    cards = model_cards({MODELS_PATH: response})
    if cards is None:
        return False
    return tuple(_listed_model(card) for card in cards) != known.models or _engine_by_owner(cards) not in (None, known.engine)


def is_ready(response: ProbeResponse) -> bool:
    """Whether a response of `health_path` shows that the engine takes requests. LMDeploy answers 503 to them while it sleeps."""
    return response.status < 500 and decode_object(response).get("status") != "sleeping"


def shows_no_api(found: ProbeResult, models: ProbeResponse) -> bool:
    """Whether nothing shows that there is an API, which is then to be asked by an empty request: see lacks_api().

    Engines and routers differ in the paths that they have, so a missing list of models alone says nothing.
    """
    is_unknown = found.engine is None and found.models is None and found.router is None
    return is_unknown and models.status < 500 and models.status not in _CREDENTIAL_STATUSES


def lacks_api(response: ProbeResponse) -> bool:
    """Whether the response to an empty request of the provider's API, `{}`, shows that there is no such API.

    An API refuses what names no model and has no messages, in words of its own: with 400 or 422, or a 404 for the model.
    """
    if response.status in (404, 405):
        error = decode_object(response).get("error")
        return not (isinstance(error, dict) or (isinstance(error, str) and error.lower() not in _NOT_FOUND))
    return response.status < 400 and not decode_object(response)


def refuses_credential(response: ProbeResponse) -> bool:
    return response.status in _CREDENTIAL_STATUSES


def _engine_by_owner(cards: list[dict[str, Any]] | None) -> str | None:
    owners = {_ENGINE_BY_OWNER.get(str(card.get("owned_by"))) for card in cards or ()}
    return owners.pop() if len(owners) == 1 else None


def _engine_by_responses(responses: ProbeResponses) -> str | None:
    return next((name for name, probe in ENGINE_PROBES.items() if probe.is_recognised and probe.is_recognised(responses)), None)


def _known_router(responses: ProbeResponses) -> str | None:
    """A router that reports itself. production-stack lists its engines: main_router.py, read 2026-11."""
    return "production-stack" if list_at(responses, "/engines") is not None else None


def _listed_model(card: dict[str, Any]) -> ListedModel:
    meta = card.get("meta")
    trained_length = cast("dict[str, Any]", meta).get("n_ctx_train") if isinstance(meta, dict) else None
    length, parent = card.get("max_model_len") or trained_length, card.get("parent")
    is_length, is_name = type(length) is int and length > 0, isinstance(parent, str) and parent
    return ListedModel(card["id"], length if is_length else None, parent if is_name else None)
