"""Serves declared operations: authentication, roles, decoding, one transaction for each change, If-Match, dry runs, repetitions."""

import functools
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec
from litestar import HttpMethod, Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.client_ip import client_address
from app.api.path_segments import decode_slashes
from app.api.query_parameters import check_parameter
from app.api.request_id import request_id_of
from app.api.response_headers import request_headers, to_litestar_headers
from app.api.rest.operation import Answer, Call, NoBody, NotConsulted, Operation
from app.api.rest.request_parsing import parse_admin_body, parse_query
from app.gateway.permissions import Network
from app.store.access.locking import lock_access
from app.store.access.roles import Principal, roles_with
from app.store.admin_transactions import admin_transaction
from app.store.audit_log import Author, Change, read_changes
from app.store.errors import BadConfiguration, InvalidKeyField, StillUsed
from app.store.repetitions import Repetitions, StoredAnswer
from app.store.vault import Vault
from providers.canonical.errors import BodyTooLarge, Conflict, InvalidRequest, NotAllowed

Authenticate = Callable[[Request[Any, Any, Any]], Awaitable[Principal]]


class DryRun(Struct, frozen=True):
    """What the same request without `dry_run` would change now. Nothing was changed."""

    dry_run: bool
    changes: list[Change]
    warnings: list[str]


class Dispatcher:
    """Makes a route handler of each operation. `database`: a pool of the admin API's own, so that callers never wait for its queries."""

    def __init__(self, database: AsyncEngine, vault: Vault, authenticate: Authenticate, trusted_proxies: tuple[Network, ...]) -> None:
        self._database = database
        self._authenticate = authenticate
        self._trusted_proxies = trusted_proxies
        self._repetitions = Repetitions(vault)

    def route(self, operation: Operation[Any, Any]) -> HTTPRouteHandler:
        async def serve(request: Request[Any, Any, Any]) -> Response[Any]:
            return await self._serve(operation, request)

        path = operation.path.replace("}", ":str}")
        return HTTPRouteHandler(path, http_method=HttpMethod(operation.method), status_code=operation.status, name=operation.id)(serve)

    async def _serve(self, operation: Operation[Any, Any], request: Request[Any, Any, Any]) -> Response[Any]:
        principal = await self._authenticate_for(operation, request)
        if operation.access == "memory" and operation.method != "GET" and "idempotency-key" in request.headers:
            raise InvalidRequest("This route takes no Idempotency-Key: what an engine did cannot be undone or done once.")
        raw_query, dry_run = _split_dry_run(request.scope["query_string"]) if operation.access == "write" else (None, False)
        body = await _read_body(operation, request)
        if body[0]:  # it may have arrived slowly, and access may have ended meanwhile
            principal = await self._authenticate_for(operation, request)
        id = request_id_of(request.scope)
        call = Call(
            principal,
            self._author(principal, request, id),
            operation.permission,
            _path_values(request),
            parse_query(request.scope["query_string"] if raw_query is None else raw_query, operation.query),
            body[1],
            request.headers.get("if-match"),
            None,
            functools.partial(admin_transaction, self._database, operation.timeout_s, read_only=True),
            functools.partial(admin_transaction, self._database, operation.timeout_s, read_only=False),
            functools.partial(self._authenticate_for, operation, request),
            request.headers.get("last-event-id"),
        )
        try:
            if operation.access == "memory":
                answer = await self._run(operation, call)
            elif operation.access == "read":
                async with admin_transaction(self._database, operation.timeout_s, read_only=True) as call.raw_connection:
                    answer = await self._run(operation, call)
            else:
                answer = await self._write(operation, call, request, body[0], dry_run=dry_run)
        except InvalidKeyField as fault:
            raise InvalidRequest(str(fault), param=fault.field) from None
        except StillUsed as fault:
            raise Conflict(str(fault)) from None
        except BadConfiguration as fault:
            raise InvalidRequest(str(fault)) from None
        if isinstance(answer, StoredAnswer):
            return _respond(answer.status, answer.body, answer.headers, id)
        headers = {**answer.headers, **({} if answer.etag is None else {"etag": answer.etag})}
        media_type, status = answer.media_type or operation.response_media_type, answer.status or operation.status
        body: object = answer.body
        if isinstance(body, AsyncGenerator):
            pages = cast("AsyncGenerator[bytes]", body)
            return Stream(pages, status_code=status, media_type=media_type, headers=_headers(headers, id))
        content = answer.body if isinstance(answer.body, bytes) else msgspec.json.encode(answer.body)
        return _respond(status, content, headers, id, media_type)

    async def _run(self, operation: Operation[Any, Any], call: Call[Any, Any]) -> Answer:
        answer = await operation.handler(call)
        if operation.scope == "team" and not call.teams_checked:
            raise NotConsulted(f"{operation.id} does not check teams")
        return answer

    async def _write(
        self, operation: Operation[Any, Any], call: Call[Any, Any], request: Request[Any, Any, Any], raw_body: bytes, *, dry_run: bool
    ) -> Answer | StoredAnswer:
        key = None if dry_run else request.headers.get("idempotency-key")
        async with admin_transaction(self._database, operation.timeout_s, read_only=False) as connection:
            call.raw_connection = connection
            if key is not None:
                by = f"{call.principal.kind}:{call.principal.id}"
                request_hash = _hash_request(request, raw_body)
                earlier = await self._repetitions.claim(connection, by, key, request_hash)
                if earlier is not None:
                    return earlier
                await self._check_again(operation, call, request)
                answer = await self._run(operation, call)
                content = msgspec.json.encode(answer.body)
                headers = {**answer.headers, **({} if answer.etag is None else {"etag": answer.etag})}
                stored = StoredAnswer(answer.status or operation.status, headers, content)
                await self._repetitions.store(connection, by, key, stored, is_secret=operation.secret_response)
                return answer
            await self._check_again(operation, call, request)
            answer = await self._run(operation, call)
            if not dry_run:
                return answer
            changes = await read_changes(connection, call.author)
            await connection.rollback()
            return Answer(DryRun(True, changes, list(answer.warnings)), status=200)

    async def _check_again(self, operation: Operation[Any, Any], call: Call[Any, Any], request: Request[Any, Any, Any]) -> None:
        """Before a change of somebody's access: whoever makes it may have lost theirs to a change that this one waited for."""
        if operation.permission == "access:write":
            await lock_access(call.connection)
            call.principal = await self._authenticate_for(operation, request)

    async def _authenticate_for(self, operation: Operation[Any, Any], request: Request[Any, Any, Any]) -> Principal:
        principal = await self._authenticate(request)
        _check_permission(principal, operation)
        return principal

    def _author(self, principal: Principal, request: Request[Any, Any, Any], id: str) -> Author:
        raw_headers: list[tuple[bytes, bytes]] = request.scope["headers"]  # pyright: ignore[reportAssignmentType]
        client = request.scope["client"]
        address = client_address(client[0] if client else None, raw_headers, self._trusted_proxies)
        agent = request.headers.get("user-agent")
        return Author(principal.kind, principal.id, principal.name, "rest", address and str(address), agent, id)


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


def _split_dry_run(query: bytes) -> tuple[bytes, bool]:
    """The query without `dry_run`, which every operation that writes takes, and its value."""
    parts = [part for part in query.split(b"&") if part]
    values = [part.partition(b"=")[2].decode("latin-1") for part in parts if part.partition(b"=")[0] == b"dry_run"]
    if len(values) > 1:
        raise InvalidRequest("`dry_run` appears several times; give it once.", param="dry_run")
    if values:
        check_parameter("dry_run", values[0], ("dry_run",))
        if values[0] not in ("true", "false"):
            raise InvalidRequest("`dry_run` must be true or false.", param="dry_run")
    return b"&".join(part for part in parts if part.partition(b"=")[0] != b"dry_run"), values == ["true"]


def _path_values(request: Request[Any, Any, Any]) -> Mapping[str, str]:
    values = {name: decode_slashes(str(value)) for name, value in request.path_params.items()}
    for name, value in values.items():
        if "\0" in value:
            raise InvalidRequest(f"`{name}` in the path must not contain a NUL character.", param=name)
    return values


def _hash_request(request: Request[Any, Any, Any], body: bytes) -> bytes:
    parts = (request.method.encode(), request.scope["raw_path"], request.scope["query_string"], body)
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
