"""Runs an operation in the process of a command, in a transaction on the database, as its owner: whoever has the database may do all."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any, cast
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.api.rest.domain_refusals import DOMAIN_ERRORS, refusal_of
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import parse_admin_body, parse_query
from app.cli.operations.local_operations import operations_of
from app.cli.operations.requests import InvalidOptions, OperationRequest, OperationResponse, open_output, refusal
from app.cli.store_query import wait_until_all_serve
from app.domain import uuid7
from app.settings import Settings
from app.store.access.roles import Grant, Principal
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import Author, command_author, read_changes
from app.store.postgres.database import create_database_engine
from app.store.workers.reports import ServedVersions, read_changed_versions
from app.supervisor.database_query import query_database
from app.supervisor.machine import server_addresses
from providers.canonical.errors import InvalidRequest, NarthexError

_NOWHERE = "postgresql://127.0.0.1:1/none"  # for an operation that needs no database
_PATIENCE = 10  # somebody at a terminal may wait so many times longer than a caller of the admin API


class LocalRunner:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def run(self, request: OperationRequest, if_match: str | None) -> OperationResponse:
        """Raises OperatorError, too, if it needs a database and there is none."""
        settings = server_addresses.resolve(self._settings) if request.command.needs_database else self._settings
        [operation] = [each for each in operations_of(request.command.subject, settings) if each.id == request.command.id]
        author = replace(command_author(), request_id=str(uuid7.mint()))
        try:
            query, body = parse_query(urlencode(request.query).encode(), operation.query), _parse_body(operation, request.body)
        except InvalidRequest as fault:
            raise InvalidOptions(fault.message, fault.status, request.command) from None

        async def serve(url: str) -> tuple[OperationResponse, ServedVersions]:
            database = create_database_engine(url, command_timeout_s=_PATIENCE * operation.timeout_s)  # it connects where it must
            try:
                return await _serve(operation, request, query, body, if_match, author, database)
            finally:
                await database.dispose()

        try:
            response, change = query_database(settings.database_url or _NOWHERE, serve)
        except NarthexError as fault:
            raise refusal(fault.message, fault.status, request.command) from fault
        except DOMAIN_ERRORS as fault:
            refused = refusal_of(fault)
            raise refusal(refused.message, refused.status, request.command) from fault
        if change == ServedVersions():
            return response
        applied, wait_s = wait_until_all_serve(settings), settings.apply_wait_s
        warning = "" if applied.is_everywhere else f"the change is stored, but {applied.in_words(wait_s)}"
        return replace(response, warning=warning, applied=applied.in_words(wait_s))


async def _serve(
    operation: Operation[Any, Any],
    request: OperationRequest,
    query: Any,
    body: Any,
    if_match: str | None,
    author: Author,
    database: AsyncEngine,
) -> tuple[OperationResponse, ServedVersions]:
    principal = Principal("key", "", author.name, (Grant("owner"),))

    def open_transaction(*, read_only: bool) -> AbstractAsyncContextManager[AsyncConnection]:
        timeout_s = _PATIENCE * operation.timeout_s
        return admin_transaction(database, timeout_s, read_only=read_only, one_moment=read_only and operation.one_moment)

    async def authenticate_again() -> Principal:
        return principal

    call = Call(
        principal,
        author,
        operation.permission,
        request.path,
        query,
        body,
        if_match,
        None,
        lambda: open_transaction(read_only=True),
        lambda: open_transaction(read_only=False),
        authenticate_again,
        None,
        None,
    )
    if operation.access == "memory":
        return await _respond(await operation.handler(call), request), ServedVersions()
    async with open_transaction(read_only=operation.access == "read") as call.raw_connection:
        answer = await operation.handler(call)
        if request.dry_run:
            changes = await read_changes(call.connection, author)
            await call.connection.rollback()
            tried = {"dry_run": True, "changes": changes, "warnings": list(answer.warnings)}
            return OperationResponse(msgspec.to_builtins(tried)), ServedVersions()
        change = await read_changed_versions(call.connection) if operation.access == "write" else ServedVersions()
    return await _respond(answer, request), change


def _parse_body(operation: Operation[Any, Any], raw: bytes | None) -> Any:
    if operation.body is bytes:
        return raw or b""
    return NoBody() if operation.body is NoBody else parse_admin_body(raw or b"{}", operation.body)


async def _respond(answer: Answer, request: OperationRequest) -> OperationResponse:
    """The body as JSON's own types. A text is written as it comes."""
    body: object = answer.body
    if (answer.media_type or request.command.media_type) == "application/json":
        return OperationResponse(msgspec.json.decode(body if isinstance(body, bytes) else msgspec.json.encode(body)))
    with open_output(request) as output:
        if isinstance(body, bytes):
            output.write(body)
        else:
            async for piece in cast("AsyncGenerator[bytes]", body):
                output.write(piece)
                output.flush()
    return OperationResponse(None, " ".join(answer.warnings))
