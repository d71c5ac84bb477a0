"""KeyAccess: finds the key in whose name a request of a page is: that of its session, or another one that it names and may use."""

from typing import Any, NamedTuple

from litestar import Request
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.rest.admin_authentication import AdminAuthentication
from app.domain.callers import Caller
from app.store.access.roles import Principal
from app.store.keys.callers import find_key_holder
from app.store.keys.key_format import parse_prefix
from app.store.postgres.admin_transactions import admin_transaction
from providers.canonical.errors import InvalidRequest, NotAllowed, UnknownRecord

KEY_HEADER = "x-narthex-key"
_TIMEOUT_S = 5.0


class KeyUse(NamedTuple):
    """Who uses a key, and the caller of that key."""

    principal: Principal
    caller: Caller
    is_own: bool  # the key is that of the request or its session


class KeyAccess:
    """Finds the key in whose name a request is. The admin API's own pool is `database`."""

    def __init__(self, authentication: AdminAuthentication, database: AsyncEngine) -> None:
        self._authentication = authentication
        self._database = database

    async def find(self, request: Request[Any, Any, Any], route: str) -> KeyUse:
        """The key that counts, which may be used for `route`, a route of callers, from where the request comes.

        The header x-narthex-key names another one by its public part: that takes `keys:write` in its team, with which one could make
        a key there and use it. Raises what authentication raises, InvalidRequest, NotAllowed and UnknownRecord.
        """
        principal, caller = await self._authentication.authenticate_holder(request, route)
        named = request.headers.get(KEY_HEADER)
        if named is None:
            if caller is None:
                raise InvalidRequest(
                    f"You are signed in without a key: name one of your teams by its public part in the header {KEY_HEADER}.",
                    param=KEY_HEADER,
                )
        elif caller is None or named != caller.prefix:
            caller = await self._find_other(principal, named)
            self._authentication.check_key(request, caller, route)
            return KeyUse(principal, caller, False)
        self._authentication.check_key(request, caller, route)  # an admin key was checked for the path of the page's request
        return KeyUse(principal, caller, True)

    async def caller(self, request: Request[Any, Any, Any], route: str) -> Caller:
        return (await self.find(request, route)).caller

    async def _find_other(self, principal: Principal, named: str) -> Caller:
        prefix = parse_prefix(named)
        if prefix is None or len(named) > len("nx-") + len(prefix):
            raise InvalidRequest(f"The header {KEY_HEADER} must be the public part of a key, such as nx-0123456789ab.", param=KEY_HEADER)
        unknown = UnknownRecord(f"There is no key nx-{prefix} that you could use: it is unknown or revoked.", param=KEY_HEADER)
        if not principal.may_anywhere("keys:read"):
            raise unknown
        async with admin_transaction(self._database, _TIMEOUT_S, read_only=True) as connection:
            caller = await find_key_holder(connection, prefix=prefix)
        if caller is None or not principal.may("keys:read", caller.team):
            raise unknown
        if not principal.may("keys:write", caller.team):
            raise NotAllowed(f"Your role does not include 'keys:write' in team {caller.team!r:.100}, which using a key of it takes.")
        if caller.admin and not principal.may("admin_keys:write"):
            raise NotAllowed("Your role does not include 'admin_keys:write', which using an admin key takes.")
        return caller
