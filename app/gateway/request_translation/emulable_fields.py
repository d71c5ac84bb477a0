"""The fields of a request that the gateway can honour itself, by trimming the response or by checking it."""

from collections.abc import Collection
from typing import Any

from app.gateway.emulation.emulation import SINGLE_CALL_FIELDS, STOP_FIELDS
from app.gateway.request_translation.caller_fields import wants_non_text_output
from providers.canonical.raw_json import Body
from providers.structured_output import Constraint

# Each delta of a text is compared with all of them.
_MAX_STOPS = 64
_MAX_STOP_CHARS = 1_000


def emulable_fields(dialect: str, body: Body, constraint: Constraint | None) -> frozenset[str]:
    """The caller's names of these fields. `constraint` is that of the request, with the schemas of its strict tools."""
    stop, single_call = STOP_FIELDS.get(dialect), SINGLE_CALL_FIELDS.get(dialect)
    fields: list[str] = []
    if stop is not None and (texts := _value_at(body, stop)) is not None and _can_cut(dialect, body, texts):
        fields.append(stop)
    if single_call is not None:
        fields.append(single_call)
    for path, _ in () if constraint is None else constraint.strict_tools:
        strict = path.rpartition(".")[0] + ".strict"
        fields += [strict, strict.replace(".function.", ".")]  # by the caller's path, and by that of the canonical chat
    return frozenset(fields)


def _value_at(body: Body, path: str) -> Any:
    """The value of a field, or of one in an object, as Google has them."""
    name, _, inner = path.partition(".")
    if not body.has_value(name):
        return None
    value = body.value(name)
    return value if not inner else value.get(inner) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def _can_cut(dialect: str, body: Body, stop: object) -> bool:
    """Returns whether the gateway can cut the text at these stops.

    It cannot where the response has something beside its text that would have to be cut, too.
    """
    if body.value("include_stop_str_in_output") or body.value("echo") or wants_non_text_output(body):
        return False
    logprobs = body.value("logprobs") if dialect != "gemini" else _value_at(body, "generationConfig.responseLogprobs")
    if logprobs is not None and (logprobs is not False or dialect == "openai_completions"):
        return False
    stops: list[object] = [stop] if isinstance(stop, str) else list(stop) if isinstance(stop, list) else []  # pyright: ignore[reportUnknownArgumentType]
    return 0 < len(stops) <= _MAX_STOPS and all(isinstance(each, str) and each for each in stops) and _characters(stops) <= _MAX_STOP_CHARS


def _characters(stops: Collection[object]) -> int:
    return sum(len(each) for each in stops if isinstance(each, str))
