"""Fields in the name spaces of gateways (tensorzero::, narthex::) that this gateway does not have. They may hold credentials."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from app.gateway.request.gateway_options import RECORDED_FIELDS
from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import NULL, Body
from providers.dialect import InboundRequest
from providers.dialects.tensorzero_inference import TensorZeroInference

_NAME_SPACES = ("tensorzero::", "narthex::")
_KNOWN_FIELDS = frozenset({"tensorzero::episode_id", "tensorzero::tags"})
# What a request says to the function that it names; see FunctionFields.
_INPUT_FIELD = "narthex::input"
VARIANT_FIELDS = ("narthex::variant_name", "tensorzero::variant_name")
FUNCTION_FIELDS = frozenset({_INPUT_FIELD, *VARIANT_FIELDS})
_MAX_VARIANT_BYTES = 4 * 1024  # of JSON: more is no name, and is not decoded in the event loop
_RECORDED_AS = "[withheld]"
# Their names go into a header, and a caller chooses them.
_MAX_REPORTED = 8
_MAX_REPORTED_CHARS = 80


def reserved_fields(body: Body) -> list[str]:
    """The fields of a body that no host may see, and of which only the names are recorded."""
    fields: list[str] = []
    for key in body:  # no comprehension, which costs a call: every request comes by here, and hardly any has such a field
        if "::" in key and key.startswith(_NAME_SPACES) and key not in _KNOWN_FIELDS:
            fields.append(key)
    return fields


class FunctionFields(NamedTuple):
    """The fields of a request that are for a function, beside its chat."""

    input: Raw | None  # of the system template; None: none
    variant: str | None  # the one that the request demands; None: any


NO_FUNCTION_FIELDS = FunctionFields(None, None)


def function_fields(body: Body) -> FunctionFields:
    """Raises InvalidRequest."""
    variant: str | None = None
    for name in VARIANT_FIELDS:
        value = body.value(name) if len(memoryview(as_raw(body.get(name, NULL)))) <= _MAX_VARIANT_BYTES else False
        if value is not None and (not isinstance(value, str) or value != (variant or value)):
            raise InvalidRequest(f"`{name}` must be the name of a variant, the same wherever it is given.", param=name)
        variant = variant if value is None else value
    return FunctionFields(body.get(_INPUT_FIELD) if body.has_value(_INPUT_FIELD) else None, variant)


def remove_fields(request: InboundRequest, raw: bytes, fields: list[str]) -> tuple[InboundRequest, bytes]:
    """The request without these fields, and its body `raw` as it is recorded: without what may be a credential."""
    recorded = Body.read(raw)
    for name in fields:
        key = name.removeprefix("tensorzero::") if request.dialect == TensorZeroInference.name else name
        if name not in RECORDED_FIELDS and name not in FUNCTION_FIELDS:
            recorded[key] = _RECORDED_AS
    removed = frozenset(fields)
    return replace(request, body=Body({key: value for key, value in request.body.items() if key not in removed})), recorded.write()


def reported_names(fields: Sequence[str]) -> list[str]:
    """The names as `x-narthex-dropped` and the record have them."""
    return [name[:_MAX_REPORTED_CHARS] for name in fields[:_MAX_REPORTED]]
