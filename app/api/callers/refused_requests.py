"""Refusals on the callers' routes other than inferences, such as /v1/models: counted and sampled as those of inferences are."""

from typing import Any, cast

from litestar.types import Scope

from app.api.callers.authentication import public_key_part, read_key
from app.api.server.request_id import request_id_of
from app.domain.callers import Caller
from app.gateway.pipeline.gateway import Gateway
from app.gateway.state.context import RequestContext
from app.store.keys.key_format import hash_key
from app.store.usage.rollups import UNKNOWN
from providers.canonical.errors import (
    CallerCredentialRequired,
    LimitExceeded,
    MethodNotAllowed,
    NarthexError,
    NotAllowed,
    UnknownModel,
    UnknownRoute,
)

# About the key, or the client's configuration. A 404 of a record that is not stored yet, or an invalid parameter, refuses nobody.
_COUNTED = (CallerCredentialRequired, NotAllowed, LimitExceeded, UnknownModel, UnknownRoute, MethodNotAllowed)
_PATHS = "/v1/"


class RefusedRequests:
    """Counts and samples refusals of the application on the callers' address.

    That address may also serve the admin API, whose refusals are left out.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def add(self, scope: Scope, error: NarthexError, *, is_mistyped: bool = False) -> None:
        """Counts and samples a refusal while its error is answered.

        `is_mistyped` means that there is a path like the one that was requested.
        """
        if not isinstance(error, _COUNTED):
            return
        path: str = scope["path"]
        is_routed = not isinstance(error, (UnknownRoute, MethodNotAllowed))
        route: str = cast("Any", scope).get("path_template", "") if is_routed else UNKNOWN
        if not (is_mistyped or (route if is_routed else path).startswith(_PATHS)):
            return
        context = RequestContext(route, _Answering())
        context.own_request_id = request_id_of(scope)
        if is_routed:
            context.key_holder = self._find_caller(scope)
        is_key_unknown = context.key_holder is None and isinstance(error, CallerCredentialRequired)
        unknown_key = public_key_part(scope["headers"]) if is_key_unknown else None
        self._gateway.refusals.add(context, error, self._gateway.snapshot_cache.snapshot, unknown_key)

    def _find_caller(self, scope: Scope) -> Caller | None:
        """Returns the caller of a key that has just been looked up, or None if the key is missing or unknown."""
        try:
            return self._gateway.snapshot_cache.keys.get_cached(hash_key(read_key(dict(scope["headers"]))))
        except CallerCredentialRequired:
            return None


class _Answering:
    disconnected = False
