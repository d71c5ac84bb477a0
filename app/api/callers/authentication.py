"""Authentication: the caller whose key a request carries, and whether that key may be used now, for this route, from this network."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

from litestar import Request
from litestar.types import Scope

from app.api.callers.key_parameter import KEY_PARAMETER_PATHS, take_key
from app.api.server.client_ip import client_address
from app.api.server.path_segments import decode_slashes
from app.domain.callers import Caller
from app.gateway.routing.permissions import may_come_from, may_use_route
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.keys.index import TooManyLookups
from app.store.keys.key_format import hash_key, key_prefix
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from providers.canonical.errors import CallerCredentialRequired, InvalidRequest, NotAllowed, Unavailable

log = logging.getLogger(__name__)

# Finds the caller of a request, who may use its route.
Authenticate = Callable[[Request[Any, Any, Any]], Awaitable[Caller]]

_HOW_TO_SEND = "Send it as `Authorization: Bearer <key>`, `x-api-key: <key>` or `x-goog-api-key: <key>`."


async def authenticate(
    snapshot_cache: SnapshotCache, headers: Mapping[bytes, bytes], path: str, client: str | None, raw_headers: Sequence[tuple[bytes, bytes]]
) -> Caller:
    """The caller of the key in `Authorization: Bearer` or `x-api-key`; a cached key costs no query.

    `client` is the peer address of the socket; None, on a Unix socket, is in no network. `raw_headers` are all headers as they came. Raises
    CallerCredentialRequired; NotAllowed; Unavailable if the key is not cached and Postgres is unavailable.
    """
    caller = await identify(snapshot_cache, headers)
    check_permissions(snapshot_cache, caller, path, client, raw_headers)
    return caller


async def identify(snapshot_cache: SnapshotCache, headers: Mapping[bytes, bytes]) -> Caller:
    """The caller of the key, who may not use it here, or no longer: see check_permissions(). Raises as authenticate does."""
    bearer = headers.get(b"authorization", b"")
    if bearer[:7] == b"Bearer ":  # as nearly always; the hash tells whether the rest is a key, and nothing but a key
        caller = snapshot_cache.keys.get_cached(sha256(bearer[7:]).digest())
        if caller is not None:
            return caller
    key = read_key(headers)
    return snapshot_cache.keys.get_cached(hash_key(key)) or await _wait_for(snapshot_cache.keys.find(key))


def check_permissions(
    snapshot_cache: SnapshotCache, caller: Caller, path: str | None, client: str | None, raw_headers: Sequence[tuple[bytes, bytes]]
) -> None:
    """Raises CallerCredentialRequired for an expired key, NotAllowed for this route or from this network; see authenticate().

    `path`: None: what every key may do.
    """
    if caller.expires_s is not None and caller.expires_s <= snapshot_cache.now_s():
        raise CallerCredentialRequired("This API key has expired: request a new one from whoever issued it.")
    if caller.routes is not None and path is not None and not may_use_route(caller, path):
        raise NotAllowed(f"This API key may not use this route. It may use: {_join_patterns(caller.routes)}.")
    if caller.networks is not None and not may_come_from(caller, client_address(client, raw_headers, snapshot_cache.trusted_proxies)):
        raise NotAllowed("This API key may not be used from this network.")


async def authenticate_admin(snapshot_cache: SnapshotCache, scope: Scope) -> Caller:
    """The caller of an ASGI request with an admin key. Raises as authenticate_scope does, and NotAllowed for a key of another kind."""
    caller = await authenticate_scope(snapshot_cache, scope)
    if not caller.admin:
        raise NotAllowed(ADMIN_KEY_NEEDED)
    return caller


ADMIN_KEY_NEEDED = (
    "This needs an admin key: `narthex keys create --team T --admin` creates one. "
    "Routes below /admin/v1 also take tokens of service accounts."
)


async def identify_scope(snapshot_cache: SnapshotCache, scope: Scope) -> Caller:
    """The caller of an ASGI request, who may not use it here: see check_scope(). Raises as authenticate_scope does."""
    return await identify(snapshot_cache, dict(check_key_headers(scope)))


async def identify_session(snapshot_cache: SnapshotCache, scope: Scope, hash: bytes, prefix: str) -> Caller:
    """The caller of an ASGI request with a session that a key began. Otherwise as identify_scope.

    `hash` and `prefix` are that key's.
    """
    check_key_headers(scope)
    return snapshot_cache.keys.get_cached(hash) or await _wait_for(snapshot_cache.keys.find_hashed(hash, prefix))


def check_scope(snapshot_cache: SnapshotCache, scope: Scope, caller: Caller, path: str | None) -> None:
    """Raises as check_permissions does. The route that counts is `path`, which may be another than the request's."""
    client = scope["client"]
    check_permissions(snapshot_cache, caller, path, client[0] if client else None, check_key_headers(scope))
    scope["state"]["caller"] = caller  # for the access log


async def authenticate_scope(snapshot_cache: SnapshotCache, scope: Scope) -> Caller:
    """The caller of an ASGI request. Raises as authenticate does, and InvalidRequest for a key that is sent twice."""
    caller = await identify_scope(snapshot_cache, scope)
    check_scope(snapshot_cache, scope, caller, decode_slashes(scope["path"]))
    return caller


def authentication_by_key(snapshot_cache: SnapshotCache) -> Authenticate:
    """Returns the authentication of callers' routes: by the key that a request carries. It raises as authenticate_scope does."""

    async def authenticate_request(request: Request[Any, Any, Any]) -> Caller:
        scope = request.scope
        if scope["query_string"] and scope["path"].startswith(KEY_PARAMETER_PATHS):
            key = take_key(scope["query_string"], dict(scope["headers"]))
            if key is not None:
                cast("list[tuple[bytes, bytes]]", scope["headers"]).append((b"x-goog-api-key", key))
        return await authenticate_scope(snapshot_cache, scope)

    return authenticate_request


def check_key_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    """All headers of an ASGI request. Raises InvalidRequest for a key that is sent twice."""
    raw_headers: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    for name in (b"authorization", b"x-api-key", b"x-goog-api-key"):
        if sum(each == name for each, _ in raw_headers) > 1:  # a proxy in front of the gateway may have checked the other one
            raise InvalidRequest(f"The header {name.decode()} was sent several times; send it once.")
    return raw_headers


async def _wait_for(lookup: Awaitable[Caller | None]) -> Caller:
    try:
        caller = await lookup
    except TooManyLookups:
        raise Unavailable("The key cannot be checked at the moment: too many unknown keys are being tried.", retry_after_s=1) from None
    except Exception as fault:  # a library's error over a lost connection may be of any kind, and the key is neither good nor bad
        if not isinstance(fault, DB_UNAVAILABLE_ERRORS):
            log.exception("a key could not be looked up")
        raise Unavailable("The key cannot be checked at the moment: the gateway's database is unavailable.", retry_after_s=2) from None
    if caller is None:
        raise CallerCredentialRequired(f"This API key is not valid: it is unknown or revoked. {_HOW_TO_SEND}")
    return caller


def _join_patterns(patterns: tuple[str, ...]) -> str:
    more = f" and {len(patterns) - 20} more" if len(patterns) > 20 else ""
    return ", ".join(patterns[:20]) + more


def public_key_part(raw_headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The public part of the key that a request carries, whether or not there is such a key; None: it carries none of ours."""
    try:
        return key_prefix(read_key(dict(raw_headers)))
    except CallerCredentialRequired:
        return None


def read_key(headers: Mapping[bytes, bytes]) -> str:
    """The key in `Authorization: Bearer`, `x-api-key` or `x-goog-api-key`. Raises CallerCredentialRequired if there is none."""
    authorization = headers.get(b"authorization")
    if authorization is not None:
        scheme, _, key = authorization.decode("latin-1").partition(" ")
        if scheme.lower() == "bearer" and key.strip():
            return key.strip()
    api_key = headers.get(b"x-api-key") or headers.get(b"x-goog-api-key")
    if api_key:
        return api_key.decode("latin-1").strip()
    if authorization is not None:
        raise CallerCredentialRequired(f"The Authorization header has no bearer key. {_HOW_TO_SEND}")
    raise CallerCredentialRequired(f"No API key was sent. {_HOW_TO_SEND}")
