"""Fields in the name spaces of gateways (tensorzero::, narthex::) that this gateway does not have. They may hold credentials."""

from msgspec.structs import replace

from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest

_NAME_SPACES = ("tensorzero::", "narthex::")
_KNOWN_FIELDS = frozenset({"tensorzero::episode_id", "tensorzero::tags"})
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


def remove_fields(request: InboundRequest, fields: list[str]) -> tuple[InboundRequest, bytes]:
    """The request without these fields, and its body as it is recorded."""
    recorded = Body({**request.body, **dict.fromkeys(fields, _RECORDED_AS)})
    removed = frozenset(fields)
    return replace(request, body=Body({key: value for key, value in request.body.items() if key not in removed})), recorded.write()


def reported_names(fields: list[str]) -> list[str]:
    """The names as `x-narthex-dropped` and the record have them."""
    return [name[:_MAX_REPORTED_CHARS] for name in fields[:_MAX_REPORTED]]
