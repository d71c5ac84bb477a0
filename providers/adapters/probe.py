"""Probes: which paths of an endpoint are requested by GET, how its engine is recognised, and what the responses say. No I/O.

Each engine has its EngineProbe in engines/NAME/probe.py; providers/probing.py puts them together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from providers.adapters.engine_load import LoadMetrics
from providers.adapters.lora import LoadedAdapters
from providers.canonical.raw_json import DECODE_ERRORS

MODELS_PATH = "/v1/models"
_MAX_MODELS = 10_000


class ProbeResponse(NamedTuple):
    """The response of one path."""

    status: int
    body: bytes


ProbeResponses = Mapping[str, ProbeResponse]
"""The responses of an endpoint so far, by path."""


ImageSupport = Mapping[str, bool]
"""Whether a model reads images, by its name; ALL_MODELS: every model that the server answers for. Missing: not known."""
ALL_MODELS = "*"
NO_IMAGE_SUPPORT: ImageSupport = {}


class ListedModel(Struct, frozen=True):
    """A model that an endpoint lists."""

    id: str
    context_length: int | None = None  # in tokens
    parent: str | None = None  # the model of which this is a LoRA adapter


class ProbeResult(Struct, frozen=True):
    """The engine, models and router that an endpoint was found to have."""

    # The name of the engine's adapter; None if it is unknown.
    engine: str | None = None
    # As reported; None if it is not reported, or only a router reports one.
    version: str | None = None
    # None if the endpoint lists none to us.
    models: tuple[ListedModel, ...] | None = None
    # The router between us and the engines; None if we know of none.
    router: str | None = None
    lora_adapters: LoadedAdapters = None
    image_support: ImageSupport = NO_IMAGE_SUPPORT


def no_version(responses: ProbeResponses) -> str | None:
    """Returns None, for engines that do not report their version."""
    return None


def no_router(responses: ProbeResponses, models: Sequence[ListedModel]) -> str | None:
    """Returns None, for engines in front of which no router can be recognised."""
    return None


def no_lora_adapters(responses: ProbeResponses, models: Sequence[ListedModel] | None, router: str | None) -> LoadedAdapters:
    """Returns None, for engines that do not list their LoRA adapters."""
    return None


def no_image_support(responses: ProbeResponses) -> ImageSupport:
    """Returns an empty mapping, for engines that do not report which models read images."""
    return NO_IMAGE_SUPPORT


class EngineProbe(Struct, frozen=True):
    """How one engine is probed and recognised."""

    health_path: str  # the cheap path that shows whether it takes requests
    detail_paths: tuple[str, ...] = ()  # requested as well once the engine is known
    owner: str | None = None  # the `owned_by` of the models that it lists
    is_recognised: Callable[[ProbeResponses], bool] | None = None  # whether responses are this engine's, where no owner shows it
    read_version: Callable[[ProbeResponses], str | None] = no_version
    find_router: Callable[[ProbeResponses, Sequence[ListedModel]], str | None] = no_router  # finds the router in front of it
    # reads them by the models (None: not listed) and the router
    read_lora_adapters: Callable[[ProbeResponses, Sequence[ListedModel] | None, str | None], LoadedAdapters] = no_lora_adapters
    read_image_support: Callable[[ProbeResponses], ImageSupport] = no_image_support  # which models read images
    load_metrics: LoadMetrics | None = None  # those of its /metrics page; None: it has no such page


def version_at(*paths: str, field: str = "version") -> Callable[[ProbeResponses], str | None]:
    """Reads the version from the first of these paths whose response has it."""

    def read_version(responses: ProbeResponses) -> str | None:
        values = (object_at(responses, path).get(field) for path in paths)
        return next((each[:100] for each in values if isinstance(each, str) and each), None)

    return read_version


def listed_adapters(models: Sequence[ListedModel]) -> dict[str, int | None]:
    """The models with a parent: those are LoRA adapters, without ids."""
    return {model.id: None for model in models if model.parent is not None}


def model_cards(responses: ProbeResponses) -> list[dict[str, Any]] | None:
    """The entries of /v1/models that have an id, as the endpoint wrote them; None: it lists none."""
    entries = object_at(responses, MODELS_PATH).get("data")
    if not isinstance(entries, list):
        return None
    cards = (cast("dict[str, Any]", each) for each in cast("list[object]", entries)[:_MAX_MODELS] if isinstance(each, dict))
    return [card for card in cards if isinstance(card.get("id"), str)]


def object_at(responses: ProbeResponses, path: str) -> dict[str, Any]:
    """The JSON object of a path that answered 200; empty for anything else."""
    response = responses.get(path)
    return decode_object(response) if response is not None and response.status == 200 else {}


def list_at(responses: ProbeResponses, path: str) -> list[object] | None:
    """The JSON list of a path that answered 200; None for anything else."""
    response = responses.get(path)
    decoded = _decode(response) if response is not None and response.status == 200 else None
    return cast("list[object]", decoded) if isinstance(decoded, list) else None


def decode_object(response: ProbeResponse) -> dict[str, Any]:
    """The JSON object of a response; empty for anything else."""
    decoded = _decode(response)
    return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}


def _decode(response: ProbeResponse) -> object:
    try:
        return msgspec.json.decode(response.body)
    except DECODE_ERRORS:
        return None
