"""The two dialects of a translation: the caller's and the target's."""

from providers.canonical.errors import InvalidUpstreamResponse
from providers.dialect import CallerChatDialect, CallerDialect, Dialect, EngineDialect
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, ENGINE_DIALECTS
from providers.engine_routes.route_binding import RouteBinding
from providers.host_operation import HostOperation

# A dialect that only engines speak has no caller's half, so it is an EngineDialect and no Dialect.
AnyDialect = Dialect | EngineDialect
TargetDialect = AnyDialect | RouteBinding | HostOperation


def chat_dialects(caller_dialect: CallerDialect, target_dialect: TargetDialect) -> tuple[CallerChatDialect, EngineDialect]:
    """The pair as dialects that have chats. Raises InvalidUpstreamResponse if one of them has none.

    That happens when an engine streams a response to a route that has no streams, or the reverse.
    """
    chat_dialect, engine_dialect = CALLER_CHAT_DIALECTS.get(caller_dialect.name), ENGINE_DIALECTS.get(target_dialect.name)
    if chat_dialect is None or engine_dialect is None:
        raise InvalidUpstreamResponse("The engine streamed a response that was requested without streaming, or the reverse.")
    return chat_dialect, engine_dialect
