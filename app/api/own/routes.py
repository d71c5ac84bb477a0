"""GET /admin/v1/own/models, /own/limits and /own/usage: what callers read with their key, for sessions and other pages of the dashboard."""

from collections.abc import Sequence
from typing import Any

from litestar import Request, Router
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.callers import described_inferences, limits, models, usage
from app.api.callers.authentication import Authenticate
from app.api.callers.caller_route import CallerRoute
from app.api.own.key_access import KEY_HEADER, KeyAccess
from app.api.own.playground import PATH as PLAYGROUND
from app.domain.callers import Caller
from app.gateway.pipeline.gateway import Gateway

_BASE = "/admin/v1/own"


def routes(gateway: Gateway, keys: KeyAccess, database: AsyncEngine) -> list[Router]:
    """The routes, whose pool `database` is that of callers: these ask the same there, and admins do not wait for them."""

    def by(route: str) -> Authenticate:
        async def authenticate_request(request: Request[Any, Any, Any]) -> Caller:
            return await keys.caller(request, route)

        return authenticate_request

    return [
        models.routes(gateway.snapshot_cache, gateway.fleet, by(models.PATH), _own(models.PATH)),
        limits.routes(gateway, by(limits.PATH), _own(limits.PATH)),
        usage.routes(database, by(usage.PATH), _own(usage.PATH)),
    ]


def _own(path: str) -> str:
    return _BASE + path.removeprefix("/v1")


_ABOUT = f"With a key, a token or a session: a key, or a session that it began, is about that key; the header `{KEY_HEADER}` names another."


def _describe(route: CallerRoute) -> CallerRoute:
    description = f"As {route.path}. {_ABOUT}"
    return replace(route, path=_own(route.path), id=f"{route.id}_of_own_key", tag="Own key", description=description, access="own")


_CHAT = next(each for each in described_inferences.DESCRIPTIONS if each.path == "/v1/chat/completions")
DESCRIPTIONS: Sequence[CallerRoute] = (
    *(_describe(each) for described in (models, limits, usage) for each in described.DESCRIPTIONS),
    replace(
        _CHAT,
        path=PLAYGROUND,
        id="chat_in_playground",
        tag="Own key",
        access="own",
        summary="Try a model or function",
        description=f"As /v1/chat/completions. {_ABOUT} It is counted, limited and recorded as that key's, with the origin `playground`,"
        " and takes part in no experiment. Another's key takes `keys:write` in its team, and is in the audit log.",
    ),
)
