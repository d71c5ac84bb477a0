"""Who asks: a key in `Authorization: Bearer` or `x-api-key`, known from memory; and whether it may ask that, now, from there."""

from collections.abc import Mapping, Sequence

from litestar.types import Scope

from app.api.peer import peer
from app.domain import Caller
from app.gateway.rights import may_ask, may_come_from
from app.store.away import AWAY
from app.store.key_index import Crowded
from app.store.key_terms import hashed
from app.store.live import Live
from providers.errors import Malformed, NoKey, NotAllowed, Unavailable

_HOW = "Send it as `Authorization: Bearer <key>` or `x-api-key: <key>`."


async def who_asks(
    live: Live, headers: Mapping[bytes, bytes], path: str, client: str | None, told: Sequence[tuple[bytes, bytes]]
) -> Caller:
    """Raises NoKey; NotAllowed; Unavailable if a key was not met before and Postgres cannot be asked.

    `client`: the address of the socket's other end; None, on a Unix socket, is in no network. `told`: all headers as they came.
    """
    key = _key(headers)
    caller = live.keys.known(hashed(key))
    if caller is None:
        caller = await _find(live, key)
    if caller.expires_s is not None and caller.expires_s <= live.now_s():
        raise NoKey("This API key has expired: whoever gave it to you can give you another.")
    if caller.routes is not None and not may_ask(caller, path):
        raise NotAllowed(f"This API key is not for this route. It may use: {_some(caller.routes)}.")
    if caller.networks is not None and not may_come_from(caller, peer(client, told, live.trusted_proxies)):
        raise NotAllowed("This API key may not be used from this network.")
    return caller


async def admin(live: Live, scope: Scope) -> Caller:
    """Raises as who_asks does, and NotAllowed for a key that is good and not an admin's."""
    caller = await whose_scope(live, scope)
    if not caller.admin:
        raise NotAllowed("This needs an admin key. `narthex keys create --team T --admin` makes one.")
    return caller


async def whose_scope(live: Live, scope: Scope) -> Caller:
    """Who asks by ASGI. Raises as who_asks does, and Malformed for a key that is there twice."""
    told: list[tuple[bytes, bytes]] = scope["headers"]  # pyright: ignore[reportAssignmentType]
    for name in (b"authorization", b"x-api-key"):
        if sum(each == name for each, _ in told) > 1:  # whoever is in front of us may have looked at the other one
            raise Malformed(f"The header {name.decode()} is there several times: send it once.")
    client = scope["client"]
    return await who_asks(live, dict(told), scope["path"], client[0] if client else None, told)


async def _find(live: Live, key: str) -> Caller:
    try:
        caller = await live.keys.find(key)
    except Crowded:
        raise Unavailable("The key cannot be checked at the moment: too many unknown ones are being tried.", retry_after_s=1) from None
    except AWAY:
        raise Unavailable("The key cannot be checked at the moment: the gateway's database is away.", retry_after_s=2) from None
    if caller is None:
        raise NoKey(f"This API key is not valid: it is unknown or was revoked. {_HOW}")
    return caller


def _some(patterns: tuple[str, ...]) -> str:
    more = f" and {len(patterns) - 20} more" if len(patterns) > 20 else ""
    return ", ".join(patterns[:20]) + more


def _key(headers: Mapping[bytes, bytes]) -> str:
    said = headers.get(b"authorization")
    if said is not None:
        scheme, _, key = said.decode("latin-1").partition(" ")
        if scheme.lower() == "bearer" and key.strip():
            return key.strip()
    other = headers.get(b"x-api-key")
    if other:
        return other.decode("latin-1").strip()
    if said is not None:
        raise NoKey(f"The Authorization header holds no bearer key. {_HOW}")
    raise NoKey(f"No API key was sent. {_HOW}")
