"""Anthropic's list of models, GET /v1/models: what each model accepts, as the host itself says.

`thinking.types.NAME.supported` is false exactly when a request that sends that type gets a 400, and the same is said of efforts, so the
list overrules our table. It says nothing of forced tools, sampling, prefill, or system messages among the others. Sources: the types of
Anthropic's SDK for Python 2.14 (types/model_info.py and what it refers to); https://platform.claude.com/docs/en/api/models/list; read
2026-11.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import Effort
from providers.canonical.raw_json import DECODE_ERRORS
from providers.profiles.claude.models import ClaudeProfile

MODEL_LIST_PATH = "/v1/models?limit=1000"
MAX_MODELS = 1000
_EFFORTS: Sequence[Effort] = ("low", "medium", "high", "xhigh", "max")


class ListedModel(Struct, frozen=True):
    """A model with what the list says of it."""

    id: str
    display_name: str | None = None
    # Whether each type, and each effort, is supported; empty if that is not stated.
    thinking_types: Mapping[str, bool] = {}
    efforts: Mapping[str, bool] = {}
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    lifecycle: str | None = None
    retires_at: str | None = None


def read_model_list(raw: bytes) -> tuple[list[ListedModel], str | None]:
    """The models on one page, and the id after which the next page begins; None: this is the last. What is no model is passed over.

    Raises ValueError for a body that is no such list.
    """
    try:
        decoded: Any = msgspec.json.decode(raw)
    except DECODE_ERRORS as fault:
        raise ValueError(f"it is no JSON: {fault}") from None
    match decoded:
        case {"data": [*items]}:
            models = [model for item in items[:MAX_MODELS] if (model := _read_model(item)) is not None]
            has_more, last_id = decoded.get("has_more"), decoded.get("last_id")
            return models, last_id if has_more is True and isinstance(last_id, str) else None
        case _:
            raise ValueError("it is no list of models")


def overrule(profile: ClaudeProfile, model: ListedModel) -> ClaudeProfile:
    """The rules of our table with what the list says instead. What it does not state stays."""
    types, changes = model.thinking_types, dict[str, Any]()
    if types:
        # A type that the list does not name is one that the model does not know.
        takes = {name for name, is_supported in types.items() if is_supported}
        if "adaptive" in types or "enabled" in types:
            adaptive, budget = "adaptive" in takes, "enabled" in takes
            changes["thinking_mode"] = "either" if adaptive and budget else "adaptive" if adaptive else "budget" if budget else "never"
        if "disabled" in types:
            changes["thinking_off"] = "disabled" if "disabled" in takes else "between_tools" if "between_tools" in takes else "never"
    if model.efforts:
        changes["efforts"] = tuple(effort for effort in _EFFORTS if model.efforts.get(effort))
    if model.max_tokens is not None:
        changes["max_output_tokens"] = model.max_tokens
    return replace(profile, **changes) if changes else profile


def _read_model(item: Any) -> ListedModel | None:
    if not isinstance(item, dict) or not isinstance(cast("dict[str, Any]", item).get("id"), str):
        return None
    fields = cast("dict[str, Any]", item)
    capabilities = _object(fields.get("capabilities"))
    return ListedModel(
        fields["id"],
        _text(fields.get("display_name")),
        _supported(_object(_object(capabilities.get("thinking")).get("types"))),
        _supported(_object(capabilities.get("effort"))),
        _count(fields.get("max_input_tokens")),
        _count(fields.get("max_tokens")),
        _text(fields.get("lifecycle")),
        _text(fields.get("retires_at")),
    )


def _supported(entries: Mapping[str, Any]) -> dict[str, bool]:
    """Returns the `supported` of each entry that has one.

    The `supported` of the whole stands among the entries; it is no object, and so it is left out.
    """
    found = {name: _object(entry).get("supported") for name, entry in entries.items()}
    return {name: value for name, value in found.items() if isinstance(value, bool)}


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
