"""The gateway process: builds its parts, starts them, serves until SIGTERM."""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, cast

import uvicorn
import uvloop
from litestar import Litestar
from litestar.types import ControllerRouterHandler

from app.api.admin_address.routes import admin_address_routes
from app.api.callers.exception_handlers import HANDLERS
from app.api.callers.refused_requests import RefusedRequests
from app.api.metrics import keep_metrics_current
from app.api.routes import caller_routes, inference_routes, shared_routes
from app.api.server.access_log import AccessLog
from app.api.server.http_call import CallHandler
from app.api.server.http_protocol import RequestTimes, http_protocol_class
from app.api.server.layers import with_layers
from app.api.server.tls_listener import TlsListener, open_tls
from app.domain.snapshot import Snapshot
from app.gateway.feedback.sent import SentFeedback
from app.gateway.fleet.fleet import Fleet
from app.gateway.fleet.model_lists import ModelLists
from app.gateway.fleet.node_upkeep import NodeUpkeep
from app.gateway.functions.function_table import FunctionTable
from app.gateway.idempotency.idempotency import Idempotency
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.learned_rules.sharing import RuleSharing
from app.gateway.limits.counters.counters import RedisCounters
from app.gateway.limits.limits import Limits
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.memory.body_memory import BodyMemory
from app.gateway.memory.large_blocks import map_large_blocks
from app.gateway.pipeline.gateway import Gateway
from app.gateway.pipeline.refusals import RefusalRecorder
from app.gateway.replay.runner import ReplayRunner
from app.gateway.responses_state.conversations import ConversationStore
from app.gateway.shadow.queue import ShadowQueue
from app.gateway.shadow.serve_shadow import serve_shadow
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway_server import GatewayServer
from app.process import logs
from app.process.background_tasks import BackgroundTask
from app.process.open_files import raise_open_file_limit
from app.process.telemetry import Telemetry
from app.recording.spool.spool import Spool
from app.recording.writer.ledger import SpoolAwareLedger
from app.settings import Settings
from app.store.access.accounts import configured_group_roles
from app.store.access.token_lookups import TokenLookups
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.postgres.database import create_database_engine
from app.store.postgres.vault import Vault
from providers.transport.loop_turns import LoopTurns
from providers.transport.transport import Transport
from providers.transport.write_batcher import WriteBatcher

log = logging.getLogger(__name__)

_DB_CLOSE_TIMEOUT_S = 2.0
_ADMIN_POOL_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Applications:
    """The applications that a gateway process serves, and what they share."""

    callers: Litestar  # the application on the callers' address, whose lifespan starts and stops the gateway
    admin: Litestar | None  # on the address of the admin API; None: it has none of its own, and `callers` has its routes, too
    gateway: Gateway
    access_log: AccessLog | None  # None: there is none
    tls: TlsListener | None  # of both addresses
    calls: Mapping[str, CallHandler]  # the inference routes of the callers' address, by path, which do not go through Litestar
    admin_calls: Mapping[str, CallHandler]  # likewise, of the admin API's own address


def create_applications(settings: Settings, write_batcher: WriteBatcher, loop_turns: LoopTurns, *, name: str) -> Applications:
    database = create_database_engine(settings.database_url, pool_size=4, max_overflow=4)
    # A pool of its own: neither the writer nor callers wait for an admin's slow question.
    admin_database = create_database_engine(settings.database_url, pool_size=1, max_overflow=5, pool_timeout=_ADMIN_POOL_WAIT_S)
    tokens = TokenLookups(settings.database_url, settings.session_idle_s, configured_group_roles(settings))
    telemetry = Telemetry()
    transport = Transport(
        connections_per_origin=max(settings.endpoint_connections, 1),
        write_batcher=write_batcher,
        loop_turns=loop_turns,
        proxy=settings.proxy,
        guard=settings.address_guard,
        ca_bundle=settings.ca_bundle or None,
        on_wait=telemetry.count_connection_wait,
    )
    fleet = Fleet(settings, transport, Vault(settings.secret_key.parsed))

    def prepare(snapshot: Snapshot) -> Callable[[], None]:
        endpoint_table, matcher = fleet.prepare(snapshot), limits.prepare(snapshot)
        function_table = FunctionTable(snapshot, gateway.function_table)

        def swap() -> None:
            fleet.swap(endpoint_table)
            limits.swap(matcher)
            gateway.function_table = function_table

        return swap

    snapshot_cache = SnapshotCache(settings, database, name, prepare)
    counters = RedisCounters(settings.redis_url, settings.redis_timeout_s, write_batcher)
    limits = Limits(
        settings,
        counters,
        database,
        SpoolAwareLedger(settings.home, database, settings.database_url),
        telemetry,
        lambda: snapshot_cache.workers_alive,
        snapshot_cache.worker,
    )
    fleet.learned_rules.count = telemetry.count_learned_rule
    model_lists = ModelLists(settings, fleet)
    rule_sharing = RuleSharing(fleet.learned_rules, counters)
    spool = Spool(settings.home / "spool", settings, write_batcher)
    idempotency = Idempotency(settings, database)
    media = MediaFetcher(settings)
    body_memory = BodyMemory(settings)
    large_requests = LargeRequests(settings, loop_turns)
    conversations = ConversationStore(settings, database, body_memory, large_requests)
    checks = ConstraintChecks(settings.total_timeout_s)
    gateway = Gateway(
        settings,
        snapshot_cache,
        fleet,
        limits,
        transport,
        spool,
        telemetry,
        idempotency,
        media,
        conversations,
        checks,
        body_memory,
        large_requests,
        RefusalRecorder(spool),
        lambda gateway: ShadowQueue(gateway, serve_shadow),
        SentFeedback(database),
    )

    replays = ReplayRunner(gateway, database)
    metrics_task = BackgroundTask("metrics", lambda: keep_metrics_current(gateway))
    node_upkeep = NodeUpkeep(settings, fleet, database)
    access_log = None if settings.access_log == "off" else AccessLog(settings.access_log, telemetry.count_dropped_access_lines)
    gateway.background_tasks += (metrics_task, node_upkeep.task, replays.task, rule_sharing.task, model_lists.task)
    tls = open_tls(settings, telemetry.set_certificate_expiry)
    if tls is not None:
        gateway.background_tasks.append(tls.task)
    if access_log is not None:
        gateway.background_tasks.append(access_log.task)

    @contextlib.asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None, None]:
        await snapshot_cache.start()
        await limits.start()
        fleet.start()
        idempotency.start()
        conversations.start()
        checks.start()
        large_requests.start()
        gateway.refusals.start()
        metrics_task.start()
        gateway.load_shedder.task.start()
        if settings.stream_keep_alive_s > 0:
            gateway.keep_alives.task.start()
        node_upkeep.task.start()
        rule_sharing.task.start()
        if settings.model_list_interval_s > 0:
            model_lists.task.start()
        replays.task.start()
        if access_log is not None:
            access_log.start()
        if tls is not None:
            tls.task.start()
        try:
            yield
        finally:
            if tls is not None:
                await tls.task.stop()
            await replays.task.stop()
            await metrics_task.stop()
            await gateway.load_shedder.task.stop()
            await gateway.keep_alives.task.stop()
            await node_upkeep.task.stop()
            await rule_sharing.task.stop()
            await model_lists.task.stop()
            await gateway.shadows.stop()
            fleet.stop()
            await idempotency.stop()
            await conversations.stop()
            await checks.stop()
            await large_requests.stop()
            await media.aclose()
            await limits.stop()
            await transport.aclose()
            await tokens.close()
            await snapshot_cache.stop()
            with contextlib.suppress(TimeoutError):  # a dead connection never answers the goodbye
                async with asyncio.timeout(_DB_CLOSE_TIMEOUT_S):
                    await asyncio.gather(database.dispose(), admin_database.dispose())
            await gateway.refusals.stop()
            spool.close()
            if access_log is not None:
                await access_log.stop()

    for_callers, has_both = caller_routes(gateway, database), not settings.admin_port
    for_admins, playground = admin_address_routes(gateway, admin_database, database, tokens, access_log)
    shared = shared_routes(gateway, for_callers=True, for_admins=has_both)
    calls = inference_routes(gateway, access_log)
    if has_both:
        calls = {**calls, **playground}
    callers = _application(settings, [*shared, *for_callers, *(for_admins if has_both else [])], calls, lifespan)
    callers.state["refused_requests"] = RefusedRequests(gateway)
    if has_both:
        return Applications(callers, None, gateway, access_log, tls, calls, {})
    for_admins += shared_routes(gateway, for_callers=False, for_admins=True)
    return Applications(callers, _application(settings, for_admins, playground), gateway, access_log, tls, calls, playground)


def _application(
    settings: Settings,
    handlers: list[ControllerRouterHandler],
    other_paths: Iterable[str],
    *lifespans: Callable[[Litestar], AbstractAsyncContextManager[None]],
) -> Litestar:
    """An application of one address. `other_paths` are served on the same address without going through Litestar."""
    application = Litestar(
        route_handlers=handlers,
        lifespan=lifespans,
        exception_handlers=HANDLERS,
        openapi_config=None,
        logging_config=None,
        request_max_body_size=settings.max_body_bytes,
    )
    application.state["paths"] = frozenset((*other_paths, *(route.path for route in application.routes)))
    return application


def run_worker(settings: Settings, *, sockets: list[socket.socket], name: str) -> None:
    """Run one gateway process on sockets that listen already, until SIGTERM; then it drains. A second one is the admin API's own."""
    logs.configure(settings.log_level)
    raise_open_file_limit()
    map_large_blocks()
    uvloop.run(_serve(settings, sockets, name))


async def _serve(settings: Settings, sockets: list[socket.socket], name: str) -> None:
    write_batcher, loop_turns = WriteBatcher(), LoopTurns()
    applications = create_applications(settings, write_batcher, loop_turns, name=name)
    gateway = applications.gateway

    def config(application: Litestar, handlers: Mapping[str, CallHandler]) -> uvicorn.Config:
        protocol_class = http_protocol_class(write_batcher, loop_turns, RequestTimes.of(settings), handlers)
        return uvicorn.Config(
            cast(Any, with_layers(application, settings, applications.access_log)),
            http=protocol_class,
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

    callers_config = config(applications.callers, applications.calls)
    admin_config = None if applications.admin is None else config(applications.admin, applications.admin_calls)
    # Objects made at the start live for ever: the collector skips them from now on, and does not run after every 700 new ones.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    log.info("gateway process starts", extra={"worker": name})
    await GatewayServer(callers_config, settings, gateway, admin_config, applications.tls).serve(sockets)
