"""Fields of a body by which TensorZero's users say how the gateway serves a request. Each is honoured, reported, or refused by its name.

They begin with `tensorzero::` in OpenAI's API; in TensorZero's own the dialect has put that in front.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from app.gateway.request.chat_params import set_chat_params
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import CallerDialect, InboundRequest
from providers.dialects.openai_chat import request_schema as openai_chat
from providers.dialects.tensorzero_inference.request_schema import CacheOptions, Name, Params
from providers.engine_routes.route import Route
from providers.fields import FIELDS
from providers.request_overrides.overrides import RequestOverrides
from providers.request_overrides.read_overrides import read_overrides

PREFIX = "tensorzero::"
NAMESPACE_TAG = "tensorzero::namespace"
# Their values are recorded; those of all other reserved fields may hold credentials.
RECORDED_FIELDS = frozenset(
    PREFIX + name
    for name in (
        *("cache_options", "deny_unknown_fields", "dryrun", "extra_body", "include_raw_response", "include_raw_usage", "namespace"),
        *("params", "provider_tools"),
    )
)
_NOT_OFFERED: Mapping[str, str] = {
    "dryrun": "every inference is recorded and charged here. Leave it out; a key with the content policy `none` has records without "
    "content",
    "include_raw_response": "responses of hosts are translated, and kept in that form",
    "include_raw_usage": "usage is reported in one form, whichever host answered",
}
_CHAT = "openai_chat"
_NATIVE = "tensorzero_inference"


class _Fields(Struct):
    """The fields as the caller names them. Values that are read elsewhere stay JSON."""

    cache_options: CacheOptions | None = field(default=None, name="tensorzero::cache_options")
    credentials: dict[str, str] | None = field(default=None, name="tensorzero::credentials")
    deny_unknown_fields: bool | None = field(default=None, name="tensorzero::deny_unknown_fields")
    dryrun: bool | None = field(default=None, name="tensorzero::dryrun")
    include_raw_response: bool | None = field(default=None, name="tensorzero::include_raw_response")
    include_raw_usage: bool | None = field(default=None, name="tensorzero::include_raw_usage")
    namespace: Name | None = field(default=None, name="tensorzero::namespace")
    params: Params | None = field(default=None, name="tensorzero::params")


class GatewayOptions(Struct, frozen=True):
    """The options of a request's reserved fields, which say how it is served."""

    namespace: str | None = None  # becomes a tag; None: none
    headers: Mapping[bytes, bytes] = {}  # the caller's credentials for targets, as the headers that these take them from
    reported: Sequence[str] = ()  # reserved fields that change nothing here, by the caller's names


NO_OPTIONS = GatewayOptions()
_decoder = msgspec.json.Decoder(_Fields)
_OVERRIDES = ("extra_body", "extra_headers", "provider_tools")
_KNOWN_CHAT_FIELDS = frozenset({*openai_chat.Request.__struct_encode_fields__, *FIELDS})


def read_options(
    dialect: CallerDialect, request: InboundRequest, reserved: list[str], credential_headers: Collection[bytes]
) -> tuple[InboundRequest, GatewayOptions]:
    """The request with its overrides and parameters, and how it is served. Raises InvalidRequest and Unsupported.

    `reserved` are the reserved fields that it has, `credential_headers` headers that configured targets take credentials from.
    """
    if not any([name.startswith(PREFIX) for name in reserved]):
        return request, GatewayOptions(reported=reserved)
    prefix = "" if request.dialect == _NATIVE else PREFIX
    body = request.body
    fields = _decode({name: body[name] for name in reserved if name.startswith(PREFIX)}, prefix)
    for name, why in _NOT_OFFERED.items():
        if getattr(fields, name):
            raise Unsupported(f"`{prefix}{name}` is not offered: {why}.", param=f"{prefix}{name}")
    overrides = _read_overrides(dialect, request, prefix)
    honoured = {PREFIX + name for name in ("deny_unknown_fields", "namespace", "params", *_NOT_OFFERED, *_OVERRIDES)}
    if fields.cache_options is None or fields.cache_options.enabled in (None, "off"):
        honoured.add(PREFIX + "cache_options")
    headers = {name: value.encode() for name, value in _credential_headers(fields.credentials or {}, prefix)}
    used = {name: value for name, value in headers.items() if name in credential_headers}
    if len(used) == len(headers):
        honoured.add(PREFIX + "credentials")
    if fields.deny_unknown_fields:
        _deny_unknown(request)
    if fields.params is not None and fields.params.chat_completion is not None:
        if request.dialect != _CHAT:
            raise Unsupported(f"`{prefix}params` is a field of chat completions; this API has its own.", param=f"{prefix}params")
        request = set_chat_params(dialect, request, fields.params.chat_completion)
    if overrides is not None:
        request = replace(request, overrides=overrides)
    reported = [name if prefix else name.removeprefix(PREFIX) for name in reserved if name not in honoured]
    return request, GatewayOptions(fields.namespace, used, reported)


def _decode(values: Mapping[str, Any], prefix: str) -> _Fields:
    try:
        return _decoder.decode(msgspec.json.encode(values))
    except DECODE_ERRORS as fault:
        problem, _, path = str(fault).partition(" - at `$.")
        where = path.removesuffix("`")
        where = where if prefix else where.removeprefix(PREFIX)
        raise InvalidRequest(f"{problem} at `{where}`.", param=where) from None


def _read_overrides(dialect: CallerDialect, request: InboundRequest, prefix: str) -> RequestOverrides | None:
    body = request.body
    raw = [_raw(body, PREFIX + name) for name in _OVERRIDES]
    overrides = read_overrides(raw[0], raw[1], raw[2], prefix)
    if overrides is not None and (isinstance(dialect, Route) or request.dialect == "openai_embeddings"):
        name = prefix + next(name for name, value in zip(_OVERRIDES, raw, strict=True) if value is not None)
        raise Unsupported(f"`{name}` is not offered on this route: it is for chats and texts.", param=name)
    return overrides


def _raw(body: Body, name: str) -> Raw | None:
    return Raw(msgspec.json.encode(body[name])) if body.has_value(name) else None


def _credential_headers(credentials: Mapping[str, str], prefix: str) -> list[tuple[bytes, str]]:
    """A provider whose `credential` is `header:x-NAME` takes the credential `NAME`, in which `_` may stand for `-`."""
    found: list[tuple[bytes, str]] = []
    for name, value in credentials.items():
        header = name.lower().replace("_", "-")
        header = header if header.startswith("x-") else f"x-{header}"
        if not header.isascii() or len(header) > 100 or not value.isascii() or not value.isprintable():
            raise InvalidRequest(f"`{prefix}credentials`: names and values must be printable ASCII.", param=f"{prefix}credentials")
        found.append((header.encode(), value))
    return found


def _deny_unknown(request: InboundRequest) -> None:
    if request.dialect != _CHAT:
        raise Unsupported("`tensorzero::deny_unknown_fields` is a field of chat completions.", param="tensorzero::deny_unknown_fields")
    for name in request.body:
        if name not in _KNOWN_CHAT_FIELDS and not name.startswith((PREFIX, "narthex::")):
            raise InvalidRequest(
                f"`{name:.100}` is no known field of chat completions, and `tensorzero::deny_unknown_fields` is true.", param=name[:100]
            )
