"""Where the parts meet: nothing else builds them."""

import asyncio
import contextlib
import gc
import logging
import resource
import socket
from collections.abc import AsyncGenerator

import uvicorn
import uvloop
from litestar import Litestar

from app import logs
from app.api.errors import HANDLERS
from app.api.operations import keep_counting
from app.api.routes import doors, routes
from app.api.wire import corked
from app.domain import Directory
from app.gateway.checks import Checks
from app.gateway.conversations import Conversations
from app.gateway.fleet import Fleet
from app.gateway.idempotency import Idempotency
from app.gateway.limits.limits import Limits
from app.gateway.media import Media
from app.gateway.serve import Gateway
from app.record.spool import Spool
from app.settings import Settings
from app.store.counters.counters import Counters
from app.store.counters.ledger import Ledger
from app.store.database import engine
from app.store.live import Live
from app.store.vault import Vault
from app.telemetry import Telemetry
from providers.transport import Transport
from providers.turn import Turn

log = logging.getLogger(__name__)

_FAREWELL_S = 2.0


class Service(uvicorn.Server):
    """uvicorn, telling the gateway first that it is to stop: what comes from then on is refused with 503 until the socket is closed."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._gateway.draining = self._gateway.idempotency.draining = True
        await super().shutdown(sockets)


def create_app(settings: Settings, turn: Turn, *, name: str) -> tuple[Litestar, Gateway]:
    """The application and its parts. They are started, and let go of, by the application's lifespan."""
    database = engine(settings.database_url, pool_size=4, max_overflow=4)
    transport = Transport(turn=turn, proxy=settings.proxy, ca_bundle=settings.ca_bundle or None)
    fleet = Fleet(settings, transport, Vault(settings.secret_key.parsed))
    telemetry = Telemetry()

    def swap(newest: Directory) -> None:
        fleet.swap(newest)
        limits.swap(newest)

    live = Live(settings, database, name, on_swap=swap)
    counters = Counters(settings.redis_url, settings.redis_timeout_s, turn)
    limits = Limits(settings, counters, database, Ledger(settings.home, database), telemetry, lambda: live.workers_alive)
    spool = Spool(settings.home / "spool", settings, turn)
    idempotency = Idempotency(settings, database)
    media = Media(settings)
    conversations = Conversations(settings, database)
    checks = Checks()
    gateway = Gateway(settings, live, fleet, limits, transport, spool, telemetry, idempotency, media, conversations, checks)

    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None, None]:
        await live.start()
        await limits.start()
        fleet.start()
        idempotency.start()
        conversations.start()
        checks.start()
        counting = asyncio.create_task(keep_counting(gateway))
        try:
            yield
        finally:
            counting.cancel()
            fleet.stop()
            await idempotency.stop()
            await conversations.stop()
            await checks.stop()
            await media.aclose()
            await limits.stop()
            await transport.aclose()
            await live.stop()
            with contextlib.suppress(TimeoutError):  # a line that is dead without a word says no farewell either
                async with asyncio.timeout(_FAREWELL_S):
                    await database.dispose()
            spool.close()

    litestar = Litestar(
        route_handlers=routes(gateway, database),
        lifespan=[lifespan],
        exception_handlers=HANDLERS,
        openapi_config=None,
        logging_config=None,
        request_max_body_size=settings.max_body_bytes,
    )
    return litestar, gateway


def run_worker(settings: Settings, *, sockets: list[socket.socket], name: str) -> None:
    """One gateway process on listening sockets that it was handed, until SIGTERM; then it drains."""
    logs.start(settings.log_level)
    open_many_files()
    uvloop.run(_serve(settings, sockets, name))


def open_many_files() -> None:
    """As many as this process may: a stream takes two, and the 1024 that a login usually begins with are soon gone."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(settings: Settings, sockets: list[socket.socket], name: str) -> None:
    turn = Turn()
    app, gateway = create_app(settings, turn, name=name)
    config = uvicorn.Config(
        app,
        http=corked(turn, settings.silence_timeout_s, doors(gateway)),
        ws="none",
        loop="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(settings.keep_alive_s),
        timeout_graceful_shutdown=int(settings.drain_timeout_s),
    )
    # What was made at the start lives for ever: the collector need not look at it again, and need not run after every 700 objects.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    log.info("gateway process begins", extra={"worker": name})
    await Service(config, gateway).serve(sockets)
