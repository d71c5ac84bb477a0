"""Serves declared operations: authentication, roles, decoding, one transaction for each change, If-Match, dry runs, repetitions.

A change of what gateway processes serve, as its transaction shows, is answered once all of them serve it.
"""

import functools
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast
from urllib.parse import quote

import msgspec
from litestar import HttpMethod, Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.rest.domain_refusals import DOMAIN_ERRORS, refusal_of
from app.api.rest.operation import Answer, Call, NoBody, NotConsulted, Operation
from app.api.rest.request_parsing import parse_admin_body, parse_query
from app.api.server.client_ip import client_address
from app.api.server.inference_protocol import BREAK_OFF
from app.api.server.path_segments import decode_slashes
from app.api.server.query_parameters import check_parameter
from app.api.server.request_id import request_id_of
from app.api.server.response_coding import LEAST_BYTES, accepts_gzip, compress
from app.api.server.response_headers import request_headers, to_litestar_headers
from app.gateway.responses_state.lookup_slots import LookupSlots
from app.gateway.routing.permissions import Network
from app.store.access.locking import lock_access
from app.store.access.roles import Principal, roles_with
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import Author, AuthorKind, Change, read_changes
from app.store.postgres.vault import Vault
from app.store.workers.applied_changes import Applied
from app.store.workers.repetitions import Repetitions, StoredAnswer
from app.store.workers.reports import ServedVersions, read_changed_versions
from providers.canonical.errors import BodyTooLarge, InvalidRequest, NotAllowed

# Takes the route of callers that the operation stands for, as Operation.caller_route has it.
Authenticate = Callable[[Request[Any, Any, Any], str | None], Awaitable[Principal]]
# Waits until every gateway process serves a change, for a bounded time or, without `wait`, no longer than it takes to find out.
WaitUntilApplied = Callable[[ServedVersions, bool], Awaitable[Applied]]


class DryRun(Struct, frozen=True):
    """The changes that the same request without `dry_run` would make now. Nothing was changed."""

    dry_run: bool
    changes: list[Change]
    warnings: list[str]


class WriteOptions(Struct, frozen=True):
    """The query parameters of every operation that writes."""

    dry_run: bool = False
    wait: bool = True


class Dispatcher:
    """Makes a route handler of each operation. `database` is a pool of the admin API's own, so that callers never wait for its queries."""

    def __init__(
        self,
        database: AsyncEngine,
        vault: Vault,
        authenticate: Authenticate,
        trusted_proxies: tuple[Network, ...],
        wait_until_applied: WaitUntilApplied,
    ) -> None:
        self._database = database
        self._authenticate = authenticate
        self._wait_until_applied = wait_until_applied
        self._trusted_proxies = trusted_proxies
        self._repetitions = Repetitions(vault)
        self._caller_slots = LookupSlots(per_team=1, per_worker=2)  # a slot for each key: most connections of the pool are left to admins

    def route(self, operation: Operation[Any, Any]) -> HTTPRouteHandler:
        async def serve(request: Request[Any, Any, Any]) -> Response[Any]:
            return await self._serve(operation, request)

        path = operation.path.replace("}", ":str}")
        return HTTPRouteHandler(path, http_method=HttpMethod(operation.method), status_code=operation.status, name=operation.id)(serve)

    async def _serve(self, operation: Operation[Any, Any], request: Request[Any, Any, Any]) -> Response[Any]:
        principal = await self._authenticate_for(operation, request)
        if principal.kind != "caller":
            return await self._answer(operation, request, principal)
        async with self._caller_slots.slot(principal.id):
            return await self._answer(operation, request, principal)

    async def _answer(self, operation: Operation[Any, Any], request: Request[Any, Any, Any], principal: Principal) -> Response[Any]:
        if operation.access == "memory" and operation.method != "GET" and "idempotency-key" in request.headers:
            raise InvalidRequest("This route takes no Idempotency-Key: what an engine did cannot be undone or done once.")
        raw_query, options = request.scope["query_string"], WriteOptions()
        if operation.access == "write":
            raw_query, options = _split_options(raw_query)
        body = await _read_body(operation, request)
        if body[0]:  # it may have arrived slowly, and access may have ended meanwhile
            principal = await self._authenticate_for(operation, request)
        id = request_id_of(request.scope)
        call = Call(
            principal,
            self._author(principal, request, id),
            operation.permission,
            _path_values(request),
            parse_query(raw_query, operation.query),
            body[1],
            request.headers.get("if-match"),
            None,
            functools.partial(admin_transaction, self._database, operation.timeout_s, read_only=True),
            functools.partial(admin_transaction, self._database, operation.timeout_s, read_only=False),
            functools.partial(self._authenticate_for, operation, request),
            request.headers.get("last-event-id"),
            cast("dict[str, Any]", request.scope).get("extensions", {}).get(BREAK_OFF),
        )
        change = ServedVersions()
        try:
            if operation.access == "memory":
                answer = await self._run(operation, call)
            elif operation.access == "read":
                timeout_s, one_moment = operation.timeout_s, operation.one_moment
                async with admin_transaction(self._database, timeout_s, read_only=True, one_moment=one_moment) as call.raw_connection:
                    answer = await self._run(operation, call)
            else:
                answer, change = await self._write(operation, call, request, (raw_query, body[0]), dry_run=options.dry_run)
        except DOMAIN_ERRORS as fault:
            raise refusal_of(fault) from None
        applied_headers: Mapping[str, str] = {}
        if change != ServedVersions():
            applied_headers = await self._wait(operation, change, wait=options.wait)
        if isinstance(answer, StoredAnswer):
            return _respond(answer.status, answer.body, {**answer.headers, **applied_headers}, id)
        headers = {**answer.headers, **({} if answer.etag is None else {"etag": answer.etag}), **applied_headers}
        media_type, status = answer.media_type or operation.response_media_type, answer.status or operation.status
        body: object = answer.body
        if isinstance(body, AsyncGenerator):
            pages = cast("AsyncGenerator[bytes]", body)
            return Stream(pages, status_code=status, media_type=media_type, headers=_headers(headers, id))
        content = answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
        if operation.method == "GET" and media_type == "application/json" and len(content) >= LEAST_BYTES:
            headers["vary"] = "accept-encoding"
            if not operation.secret_response and accepts_gzip(request.headers.get("accept-encoding", "")):
                headers["content-encoding"] = "gzip"
                content = await compress(content)
        return _respond(status, content, headers, id, media_type)

    async def _run(self, operation: Operation[Any, Any], call: Call[Any, Any]) -> Answer:
        answer = await operation.handler(call)
        if operation.scope == "team" and not call.teams_checked:
            raise NotConsulted(f"{operation.id} does not check teams")
        if operation.access == "write" and operation.permission not in (None, "access:write"):
            await call.check_access()  # the change may have waited for another, and access may have ended meanwhile
        return answer

    async def _wait(self, operation: Operation[Any, Any], change: ServedVersions, *, wait: bool) -> Mapping[str, str]:
        """The headers that say which gateway processes serve a change. What may take something from a caller is always waited for."""
        if not wait and change.keys and not operation.only_creates:
            await self._wait_until_applied(ServedVersions(keys=change.keys), True)
        applied = await self._wait_until_applied(change, wait)
        if applied.live is None:
            return {"x-narthex-applied": "unknown"}
        headers = {"x-narthex-applied": f"{applied.live - len(applied.behind)}/{applied.live}"}
        if applied.behind:
            headers["x-narthex-not-applied"] = ", ".join(quote(each, safe=" /:@") for each in applied.named())
        return headers

    async def _write(
        self,
        operation: Operation[Any, Any],
        call: Call[Any, Any],
        request: Request[Any, Any, Any],
        content: tuple[bytes, bytes],
        *,
        dry_run: bool,
    ) -> tuple[Answer | StoredAnswer, ServedVersions]:
        """The answer, and the versions that the change made. `content` is the query and the body as they came."""
        key = None if dry_run else request.headers.get("idempotency-key")
        async with admin_transaction(self._database, operation.timeout_s, read_only=False) as connection:
            call.raw_connection = connection
            if key is not None:
                by = f"{call.principal.kind}:{call.principal.id}"
                request_hash = _hash_request(request, *content)
                earlier = await self._repetitions.claim(connection, by, key, request_hash)
                if earlier is not None:
                    return earlier, earlier.change
                await self._check_again(operation, call, request)
                answer = await self._run(operation, call)
                headers = {**answer.headers, **({} if answer.etag is None else {"etag": answer.etag})}
                change = await read_changed_versions(connection)
                stored = StoredAnswer(answer.status or operation.status, headers, msgspec.json.encode(answer.body), change)
                await self._repetitions.store(connection, by, key, stored, is_secret=operation.secret_response)
                return answer, change
            await self._check_again(operation, call, request)
            answer = await self._run(operation, call)
            if not dry_run:
                return answer, await read_changed_versions(connection)
            changes = await read_changes(connection, call.author)
            await connection.rollback()
            return Answer(DryRun(True, changes, list(answer.warnings)), status=200), ServedVersions()

    async def _check_again(self, operation: Operation[Any, Any], call: Call[Any, Any], request: Request[Any, Any, Any]) -> None:
        """Authenticates and authorizes again before a change of somebody's access.

        Whoever makes the change may have lost their own access to a change that this one waited for.
        """
        if operation.permission == "access:write":
            await lock_access(call.connection)
            call.principal = await self._authenticate_for(operation, request)

    async def _authenticate_for(self, operation: Operation[Any, Any], request: Request[Any, Any, Any]) -> Principal:
        principal = await self._authenticate(request, operation.caller_route)
        _check_permission(principal, operation)
        return principal

    def _author(self, principal: Principal, request: Request[Any, Any, Any], id: str) -> Author:
        raw_headers: list[tuple[bytes, bytes]] = request.scope["headers"]  # pyright: ignore[reportAssignmentType]
        client = request.scope["client"]
        address = client_address(client[0] if client else None, raw_headers, self._trusted_proxies)
        agent = request.headers.get("user-agent")
        kind: AuthorKind = "key" if principal.kind == "caller" else principal.kind
        return Author(kind, principal.id, principal.name, "rest", address and str(address), agent, id)


async def _read_body(operation: Operation[Any, Any], request: Request[Any, Any, Any]) -> tuple[bytes, Any]:
    """The body as it came, and decoded."""
    length = request.headers.get("content-length", "")
    raw = b"" if length.isdigit() and int(length) > operation.max_body_bytes else await request.body()
    if len(raw) > operation.max_body_bytes or (not raw and length.isdigit() and int(length) > operation.max_body_bytes):
        raise BodyTooLarge(f"The body is too large: this route takes at most {operation.max_body_bytes:,} bytes.")
    if operation.body is bytes:
        return raw, raw
    if operation.body is NoBody:
        if raw.strip() not in (b"", b"{}"):
            raise InvalidRequest("This route takes no body.")
        return raw, NoBody()
    if not raw.strip() and operation.body_is_optional:
        raw = b"{}"
    return raw, parse_admin_body(raw, operation.body)


def _split_options(query: bytes) -> tuple[bytes, WriteOptions]:
    """The query without the parameters that every operation that writes takes, and their values."""
    names = WriteOptions.__struct_fields__
    options: dict[str, bool] = {}
    others: list[bytes] = []
    for part in filter(None, query.split(b"&")):
        name, _, raw_value = part.partition(b"=")
        if (option := name.decode("latin-1")) not in names:
            others.append(part)
            continue
        if option in options:
            raise InvalidRequest(f"`{option}` appears several times; give it once.", param=option)
        value = raw_value.decode("latin-1")
        check_parameter(option, value, names)
        if value not in ("true", "false"):
            raise InvalidRequest(f"`{option}` must be true or false.", param=option)
        options[option] = value == "true"
    return b"&".join(others), WriteOptions(**options)


def _path_values(request: Request[Any, Any, Any]) -> Mapping[str, str]:
    values = {name: decode_slashes(str(value)) for name, value in request.path_params.items()}
    for name, value in values.items():
        if "\0" in value:
            raise InvalidRequest(f"`{name}` in the path must not contain a NUL character.", param=name)
    return values


def _hash_request(request: Request[Any, Any, Any], query: bytes, body: bytes) -> bytes:
    """The hash by which a repeated request is known. `query` has no options, because they do not make it another request."""
    parts = (request.method.encode(), request.scope["raw_path"], query, body)
    return hashlib.sha256(b"\n".join(hashlib.sha256(part).digest() for part in parts)).digest()


def _check_permission(principal: Principal, operation: Operation[Any, Any]) -> None:
    permission = operation.permission
    if permission is None or (principal.may(permission) if operation.scope == "company" else principal.may_anywhere(permission)):
        return
    roles = roles_with(permission)
    in_team = roles_with(permission, in_team=True) if operation.scope == "team" else []
    of_team = f", or in a team {', '.join(in_team)}" if in_team else ""
    raise NotAllowed(
        f"Your role does not include {permission!r}. These roles do: {', '.join(roles)}{of_team}. GET /admin/v1/session shows your roles."
    )


def _respond(status: int, content: bytes, headers: Mapping[str, str], id: str, media_type: str = "application/json") -> Response[bytes]:
    return Response(content, status_code=status, media_type=media_type, headers=_headers(headers, id))


def _headers(headers: Mapping[str, str], id: str) -> dict[str, str]:
    return {**to_litestar_headers(request_headers(id)), "cache-control": "no-store", **headers}
