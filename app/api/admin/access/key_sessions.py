"""Sessions of browsers that signed in with an admin key: /admin/v1/keys/{prefix}/sessions."""

from typing import Any

from app.api.admin.access.keys import find_key
from app.api.admin.access.users import EndedSessions, SessionList, SessionQuery, ids_to_end
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.store.access import key_sessions
from app.store.postgres.audit_log import AuditEvent, record


async def _list(call: Call[NoQuery, NoBody]) -> Answer:
    key = await find_key(call)
    return Answer(SessionList(await key_sessions.list_key_sessions(call.connection, key.prefix)))


async def _end(call: Call[SessionQuery, NoBody]) -> Answer:
    key = await find_key(call)
    ids = ids_to_end(call.query, await key_sessions.list_key_sessions(call.connection, key.prefix))
    ended = await key_sessions.end_key_sessions(call.connection, ids)
    if ended:
        event = AuditEvent("revoke", "session", f"nx-{key.prefix}", {"sessions": ended}, {"sessions": 0}, key.team)
        await record(call.connection, call.author, event)
    return Answer(EndedSessions(ended))


def operations() -> list[Operation[Any, Any]]:
    tag, path = "Keys", "/keys/{prefix}/sessions"
    return [
        Operation(
            method="GET",
            path=path,
            id="list_key_sessions",
            tag=tag,
            summary="List where browsers are signed in with an admin key",
            permission="access:read",
            response=SessionList,
            errors={404: "There is no such key."},
            commands=(Command(name="keys sessions list", examples=("keys sessions list nx-0123456789ab",), nothing="Nowhere."),),
            handler=_list,
        ),
        Operation(
            method="DELETE",
            path=path,
            id="end_key_sessions",
            tag=tag,
            summary="Sign browsers out that signed in with an admin key, or end one session",
            description="The key stays valid: whoever has it can sign in again. Revoking it ends its sessions, too.",
            permission="admin_keys:write",
            access="write",
            query=SessionQuery,
            response=EndedSessions,
            errors={404: "There is no such key or session."},
            commands=(
                Command(
                    name="keys sessions end",
                    examples=("keys sessions end nx-0123456789ab --yes",),
                    confirm="End sessions of {prefix}?",
                    done="Sessions that have ended: {ended}.",
                ),
            ),
            handler=_end,
        ),
    ]
