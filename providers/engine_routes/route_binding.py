"""RouteBinding: how one engine has a route. Its path, its names of the fields, and how its response is read."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported, UpstreamError, UpstreamRejected
from providers.canonical.raw_json import NULL, Body
from providers.engine_routes.missing_route import explain_missing_route
from providers.fields import NON_CHAT_HINT_FIELDS

# Why the engine cannot express a field's value; None: it can.
ValueCheck = Callable[[Any], str | None]


EngineRoutes = Mapping[str, Mapping[str, "RouteBinding"]]
"""The routes of one engine: by the route's name, and by the field that only one of the route's shapes has (its discriminator)."""


class RouteBinding(Struct, frozen=True, kw_only=True):
    """One engine's version of a route, for requests in one of the route's shapes."""

    # The path, which is also the name of its dialect.
    name: str
    # The caller's fields that the engine has, with its own names; all others are refused. None: it has the caller's names, and unknown
    # fields are sent.
    field_names: Mapping[str, str] | None = None
    # Used where `field_names` is None: fields that the engine ignores.
    unsupported_fields: frozenset[str] = frozenset()
    # Fields that the gateway implements on the response, and does not send.
    gateway_fields: frozenset[str] = frozenset()
    # By field, the value that requests nothing.
    neutral_values: Mapping[str, Any] = {}
    # By field, why the engine cannot express a value.
    value_checks: Mapping[str, ValueCheck] = {}
    # Sent where the caller leaves the field out.
    default_values: Mapping[str, Any] = {}
    # Whether the body names the model.
    sends_model: bool = True
    # Whether the engine reads `cache_salt`.
    reads_salt: bool = False
    # From the engine's response and the caller's body, the response in the route's common shape. None: it has that shape.
    convert_response: Callable[[bytes, Body], bytes] | None = None
    # The request has the engine's own shape, and the response is returned as it is.
    is_native: bool = False
    # Parts of the messages of 500s that the request causes.
    caller_error_markers: tuple[str, ...] = ()
    # The engine is not identified.
    is_guessed: bool = False

    def write_request(self, body: Body, provider: Provider, model: str, may_drop: Callable[[str], bool]) -> list[str]:
        """Turns a caller's body into the engine's, in place, and returns what was dropped. Raises Unsupported."""
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
                if field not in NON_CHAT_HINT_FIELDS and not may_drop(field):
                    raise provider.unsupported_error(field, f"its {self.name} has nothing like it.")
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
        """The engine's error, or a clearer one where it shows a bad request or a missing route."""
        if error.upstream_status == 500 and any(marker in error.message for marker in self.caller_error_markers):
            return UpstreamRejected(error.message, upstream_status=400)
        return explain_missing_route(error, self.name, upstream_name)


def unsupported_without_alternative(provider: Provider, field: str, reason: str) -> Unsupported:
    """The refusal of a field without which the request means nothing, so that it cannot be dropped."""
    return Unsupported(
        f"`{field}` cannot be honoured by {provider.target_name}: {reason} Change the request, or choose another model.",
        param=field,
    )
