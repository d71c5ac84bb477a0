"""Who asks: a key in `Authorization: Bearer` or `x-api-key`, known from memory."""

from collections.abc import Mapping

from app.domain import Caller
from app.store.away import AWAY
from app.store.keys import hashed
from app.store.live import Live
from providers.errors import NoKey, NotAllowed, Unavailable

_HOW = "Send it as `Authorization: Bearer <key>` or `x-api-key: <key>`."


async def who_asks(live: Live, headers: Mapping[bytes, bytes]) -> Caller:
    """Raises NoKey; Unavailable if a key was not met before and Postgres cannot be asked."""
    hash = hashed(_key(headers))
    caller = live.keys.known(hash)
    if caller is not None:
        return caller
    try:
        caller = await live.keys.find(hash)
    except AWAY:
        raise Unavailable("The key cannot be checked at the moment: the gateway's database is away.", retry_after_s=2) from None
    if caller is None:
        raise NoKey(f"This API key is not valid: it is unknown or was revoked. {_HOW}")
    return caller


async def admin(live: Live, headers: Mapping[bytes, bytes]) -> Caller:
    """Raises NoKey, or NotAllowed for a key that is good and not an admin's."""
    caller = await who_asks(live, headers)
    if not caller.admin:
        raise NotAllowed("This needs an admin key. `narthex keys create --team T --admin` makes one.")
    return caller


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
