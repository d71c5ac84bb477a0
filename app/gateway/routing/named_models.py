"""Models that a request names elsewhere than in `model`: a key that is held to models is held to them there, too.

Hosts and gateways read models in many places (`fallbacks` of Anthropic, the advisor's and the image tool's `model`, `moderation.model`,
`models` of OpenRouter, `providerOptions.gateway.models` of Vercel), and unknown fields travel untouched. So every field counts whose name
says that it names a model, at every depth, but for what callers write themselves: prompts, metadata, and schemas.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw

from app.domain.callers import Caller
from app.domain.snapshot import Snapshot
from app.gateway.routing.permissions import usable_models
from app.store.keys.restrictions import permits
from providers.canonical.errors import InvalidRequest, NotAllowed
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body

# In any letters, as servers written in Go read names; an escape may hide a letter, and the last one may be the Kelvin sign.
_MAY_NAME_MODELS = re.compile(rb"model|fallbac|deployment|\\u", re.IGNORECASE)
_ENDINGS = (
    *("model", "models", "modelid", "modelids", "modelname", "modelnames", "modellist", "modeldict"),
    *("fallback", "fallbacks", "fallbackdict", "fallbacksdict", "deploymentid", "deploymentname"),
)
_PROMPTS = frozenset(
    {
        *("model", "messages", "input", "prompt", "system", "instructions", "contents", "systemInstruction", "system_instruction"),
        *("documents", "query", "queries", "text_1", "text_2", "metadata", "prediction", "functions", "chat_template_kwargs", "logit_bias"),
        *("tensorzero::tags", "narthex::tags", "narthex::input"),
    }
)
_SCHEMAS = frozenset(
    {
        *("schema", "json_schema", "response_format", "guided_json", "output_schema", "response_schema", "responseSchema"),
        *("response_json_schema", "responseJsonSchema", "structured_outputs", "structural_tag", "format", "input_schema", "inputSchema"),
        *("input_examples", "metadata"),
    }
)
# Of a tool that the caller runs `parameters` is a schema; of one that a host runs these are its settings.
_TOOLS_OF_CALLERS = (None, "function", "custom")
# No call decodes more at once, as others wait for it: bytes, and the objects and arrays in them.
_PIECE_BYTES = 1024 * 1024
_PIECE_CONTAINERS = 10_000
_MAX_NAMES = 1_000
_SHOWN_STEPS = 20
_SHOWN_STEP_CHARACTERS = 100


class _Place(NamedTuple):
    """The place of a value. It is written only for an error, as a field's name may be as long as the body."""

    parent: "_Place | None"
    step: str | int
    is_in_tools: bool

    def inner(self, step: str | int) -> "_Place":
        return _Place(self, step, self.is_in_tools or (isinstance(step, str) and "tools" in step))

    def __str__(self) -> str:
        steps: list[str | int] = []
        place: _Place | None = self
        while place is not None and len(steps) < _SHOWN_STEPS:
            steps.append(place.step)
            place = place.parent
        shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step:.{_SHOWN_STEP_CHARACTERS}}" for step in reversed(steps))
        return shown.removeprefix(".") if place is None else f"...{shown}"


def check_named_models(snapshot: Snapshot, caller: Caller, body: Body) -> None:
    """Raises NotAllowed for a model that the key may not use, InvalidRequest for too many names. For a key that is held to some.

    It may be named as callers name it here, or as the provider of such a model does.
    """
    may_use: Callable[[str], bool] | None = None
    names_at_providers: frozenset[str] | None = None
    permitted: set[str] = set()
    for field, value in body.items():
        raw = as_raw(value)
        if field in _PROMPTS or (not _names_models(field) and _MAY_NAME_MODELS.search(raw) is None):
            continue
        try:
            for place, name in _find_in_field(field, raw, _Place(None, field, "tools" in field)):
                if name in permitted:
                    continue
                may_use = permits(caller.models) if may_use is None else may_use
                if not may_use(name):
                    if names_at_providers is None:
                        names_at_providers = frozenset(_names_at_providers(snapshot, caller))
                    if name not in names_at_providers:
                        raise NotAllowed(f"This key may not use the model {name!r:.100}, which `{place}` names.", param=str(place))
                permitted.add(name)
                if len(permitted) > _MAX_NAMES:
                    raise InvalidRequest(f"The request names more than {_MAX_NAMES} models beside its own.", param=str(place))
        except DECODE_ERRORS:
            continue  # What reads the field refuses it.


def _names_at_providers(snapshot: Snapshot, caller: Caller) -> Iterable[str]:
    return (target.model for model in usable_models(snapshot, caller) for target in snapshot.models[model].targets)


def _find(fields: Mapping[str, Any], place: _Place) -> Iterator[tuple[_Place, str]]:
    """Each model that is named below a place, with the place of its field."""
    is_tool_of_caller = place.is_in_tools and _decoded(fields.get("type")) in _TOOLS_OF_CALLERS
    pointer = _decoded(fields.get("pointer"))
    if isinstance(pointer, str) and any(map(_names_models, pointer.split("/"))):  # an override of a field of the request
        yield from _named(fields.get("value"), place.inner("value"))
    for name, value in fields.items():
        if (name in _PROMPTS and name != "model") or (name == "parameters" and is_tool_of_caller):
            continue
        yield from _find_in_field(name, value, place.inner(name))


def _find_in_field(name: str, value: Any, place: _Place) -> Iterator[tuple[_Place, str]]:
    if _names_models(name):
        yield from _named(value, place, maps_models=_plain_name(name).endswith("dict"))
    elif name not in _SCHEMAS:
        yield from _find_in(value, place)


def _find_in(value: Any, place: _Place) -> Iterator[tuple[_Place, str]]:
    value = _decoded(value)
    if isinstance(value, dict):
        yield from _find(cast("dict[str, Any]", value), place)
    elif isinstance(value, list):
        for at, each in enumerate(cast("list[Any]", value)):
            if isinstance(each, dict | list | Raw):
                yield from _find_in(each, place.inner(at))


def _named(value: Any, place: _Place, *, maps_models: bool = False) -> Iterator[tuple[_Place, str]]:
    """Yields the names, with their places, in a field that names models.

    These are its text, the texts of its list, and in its objects the fields that name a model or hold a list
    or an object; all of its fields where it maps one model to another.
    """
    value = _decoded(value)
    if isinstance(value, str):
        if value:
            yield place, value
    elif isinstance(value, list):
        for at, each in enumerate(cast("list[Any]", value)):
            if isinstance(each, str | dict | list | Raw):
                yield from _named(each, place.inner(at))
    elif isinstance(value, dict):
        for name, each in cast("dict[str, Any]", value).items():
            if name in _PROMPTS and name != "model":
                continue
            each = _decoded(each)
            if maps_models or isinstance(each, dict | list) or name in ("id", "name") or _names_models(name):
                yield from _named(each, place.inner(name))


def _decoded(value: Any) -> Any:
    """The value, decoded if it is raw. What a large one holds is raw then."""
    if not isinstance(value, Raw):
        return value
    raw = bytes(value)
    if len(raw) <= _PIECE_CONTAINERS or raw[:1] not in (b"{", b"["):
        return msgspec.json.decode(raw)
    if len(raw) <= _PIECE_BYTES and raw.count(b"{") + raw.count(b"[") <= _PIECE_CONTAINERS:
        return msgspec.json.decode(raw)
    return msgspec.json.decode(raw, type=dict[str, Raw] if raw[:1] == b"{" else list[Raw])


def _names_models(field: str) -> bool:
    return _plain_name(field).endswith(_ENDINGS)


def _plain_name(field: str) -> str:
    return field.casefold().replace("_", "").replace("-", "").rpartition("::")[2]
