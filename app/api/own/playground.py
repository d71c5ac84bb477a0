"""POST /admin/v1/playground/chat/completions: a chat of somebody who is signed in, in the name of a key.

It is served, counted, limited and recorded as a request with that key, except that its record says `playground` and takes part in no
experiment. Whoever uses another key than their own is in the audit log. The session's cookie and tokens end here: engines get neither.
"""

import functools
from collections.abc import Mapping
from typing import Any, cast

from litestar import Request
from litestar.types import HTTPScope
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.callers.inference_route import Admission, InferenceRoute
from app.api.own.key_access import KEY_HEADER, KeyAccess, KeyUse
from app.api.server.access_log import AccessLog
from app.api.server.client_ip import client_address
from app.api.server.http_call import CallHandler, HttpCall
from app.domain.callers import Caller
from app.domain.exchange import Origin
from app.gateway.idempotency.idempotency import KEY_HEADER as IDEMPOTENCY_HEADER
from app.gateway.pipeline.gateway import Gateway
from app.gateway.state.context import RequestContext
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import AuditEvent, Author, record
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from providers.canonical.errors import InvalidRequest, Unavailable
from providers.catalogue import DIALECTS

PATH = "/admin/v1/playground/chat/completions"
_ROUTE, _DIALECT = "/v1/chat/completions", "openai_chat"
_TIMEOUT_S = 5.0
_KEPT_HERE = (b"authorization", b"x-api-key", b"x-goog-api-key", b"cookie", b"origin", b"referer", KEY_HEADER.encode())


class _PlaygroundAccess:
    def __init__(self, gateway: Gateway, keys: KeyAccess, database: AsyncEngine) -> None:
        self._gateway = gateway
        self._keys = keys
        self._database = database
        self._scheme = "https" if gateway.settings.tls_cert else "http"

    async def __call__(self, context: RequestContext, call: HttpCall, headers: dict[bytes, bytes]) -> Admission:
        if IDEMPOTENCY_HEADER in headers:
            raise InvalidRequest("The playground takes no Idempotency-Key: what an engine did cannot be done once.")
        find = functools.partial(self._find, call)
        try:
            used = await find()
            context.key_holder, context.origin = used.caller, Origin("playground")
            if not used.is_own:
                await self._record(context, call, headers, used)
        except DB_UNAVAILABLE_ERRORS:
            raise Unavailable("The gateway's database is unavailable at the moment.", retry_after_s=2) from None
        own = self._gateway.fleet.table.caller_credential_headers
        sent = {name: value for name, value in headers.items() if name not in _KEPT_HERE and name not in own}

        async def find_again() -> Caller:
            return (await find()).caller

        return Admission(used.caller, sent, find_again)

    async def _find(self, call: HttpCall) -> KeyUse:
        return await self._keys.find(Request(_scope(call, self._scheme)), _ROUTE)

    async def _record(self, context: RequestContext, call: HttpCall, headers: Mapping[bytes, bytes], used: KeyUse) -> None:
        principal, caller = used.principal, used.caller
        address = client_address(call.peer, call.headers, self._gateway.settings.trusted_proxies.parsed)
        agent = headers.get(b"user-agent", b"").decode("latin-1") or None
        assert principal.kind != "caller", "a caller's key is the only one that it may use"
        author = Author(principal.kind, principal.id, principal.name, "rest", address and str(address), agent, context.request_id)
        event = AuditEvent("use", "key", caller.prefix, after={"playground": True, "inference": context.id}, team=caller.team)
        async with admin_transaction(self._database, _TIMEOUT_S, read_only=False) as connection:
            await record(connection, author, event)


def _scope(call: HttpCall, scheme: str) -> HTTPScope:
    """The call as ASGI has it, for what reads the session of a request."""
    scope: dict[str, Any] = {
        "type": "http",
        "method": call.method,
        "scheme": scheme,
        "path": call.path,
        "raw_path": call.path.encode("latin-1"),
        "query_string": b"",
        "headers": call.headers,
        "client": None if call.peer is None else (call.peer, 0),
        "state": {},
    }
    return cast("HTTPScope", scope)


def playground_routes(gateway: Gateway, keys: KeyAccess, database: AsyncEngine, access_log: AccessLog | None) -> dict[str, CallHandler]:
    """Returns the routes by path, as inference_routes() does: these bypass Litestar, too. `database`: the admin API's pool."""
    access = _PlaygroundAccess(gateway, keys, database)
    return {PATH: InferenceRoute(gateway, DIALECTS[_DIALECT], access_log, access)}
