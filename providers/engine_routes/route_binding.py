"""How one engine has a route: where it is asked, in which words, and how what it answers is read."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from providers.adapters.provider import HINT_FIELDS, Provider
from providers.canonical.errors import Unsupported, UpstreamError, UpstreamRejected
from providers.canonical.raw_json import NULL, Body
from providers.engine_routes.missing_route import explain_missing_route

# Why a field's value cannot be said there; None: it can be.
ValueCheck = Callable[[Any], str | None]


class RouteBinding(Struct, frozen=True, kw_only=True):
    """`name`: the path, which is its dialect's name too.

    `words`: the caller's fields that it has, with its own names for them; all others are refused. None: it speaks as the caller does,
    and fields that nobody knows go on to it. `refuses`: of those, what it takes and does nothing about. `here`: what is done to its answer
    here, and is no concern of its.
    `nothing`: by field, a value that asks for nothing there. `misfits`: by field, what else it can say of it.
    `says`: what must be said where the caller leaves it out. `says_model`: whether a body names the model.
    `read`: its answer made one of the route's common shape, by what was asked; None: it is one. `own`: it was asked in its own shape, and
    its answer goes back as it is.
    `asked_wrong`: what its 500s say that are the caller's doing. `guessed`: which engine it is, nobody has said.
    """

    name: str
    field_names: Mapping[str, str] | None = None
    unsupported_fields: frozenset[str] = frozenset()
    gateway_fields: frozenset[str] = frozenset()
    neutral_values: Mapping[str, Any] = {}
    value_checks: Mapping[str, ValueCheck] = {}
    default_values: Mapping[str, Any] = {}
    sends_model: bool = True
    convert_response: Callable[[bytes, Body], bytes] | None = None
    is_native: bool = False
    caller_error_markers: tuple[str, ...] = ()
    is_guessed: bool = False

    def write_request(self, body: Body, provider: Provider, model: str, may_drop: Callable[[str], bool]) -> list[str]:
        """Makes a caller's body the engine's, and tells what was dropped. Raises Unsupported for what it cannot say."""
        dropped: list[str] = []
        for field in self.gateway_fields & body.keys():
            del body[field]
        for field in sorted(body.keys() - {"model"}):
            if self._accepts(field, provider):
                value_check = self.value_checks.get(field)
                reason = value_check(body.value(field)) if value_check is not None else None
                if reason is not None:
                    raise unsupported_without_alternative(provider, field, reason)
                continue
            if body[field] != NULL and not (field in self.neutral_values and body.value(field) == self.neutral_values[field]):
                if field not in HINT_FIELDS and not may_drop(field):
                    raise provider.unsupported_error(field, f"its {self.name} knows nothing like it.")
                dropped.append(field)
            del body[field]
        for caller_name, engine_name in (self.field_names or {}).items():
            if caller_name != engine_name and caller_name in body:
                body[engine_name] = body.pop(caller_name)
        for field, value in self.default_values.items():
            if not body.has_value(field):
                body[field] = value
        body.pop("model", None)
        if self.sends_model:
            body["model"] = model
        return dropped

    def _accepts(self, field: str, provider: Provider) -> bool:
        if self.field_names is not None:
            return field in self.field_names
        return field not in self.unsupported_fields and (self.is_native or field not in provider.hint_fields)

    def explain_error(self, error: UpstreamError, upstream_name: str) -> UpstreamError:
        """The error that an engine told, made plain where it says no more than that it has no such route."""
        if error.upstream_status == 500 and any(marker in error.message for marker in self.caller_error_markers):
            return UpstreamRejected(error.message, upstream_status=400)
        return explain_missing_route(error, self.name, upstream_name)


def unsupported_without_alternative(provider: Provider, field: str, reason: str) -> Unsupported:
    """For what an ask is all about, which there is no going without."""
    return Unsupported(
        f"`{field}` cannot be honoured by {provider.configured_as} ({provider.name}): {reason} Ask otherwise, or choose another model.",
        param=field,
    )
