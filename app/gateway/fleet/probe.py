"""Probing: find out which engine runs at an endpoint, which models it has, and whether it is ready."""

import asyncio
import functools
import logging
import time
import traceback
from collections.abc import Collection, Mapping

import httpx2

from app.gateway.fleet.endpoint import Endpoint, Health
from app.process.background_tasks import BackgroundTask
from app.settings import Settings
from providers import probing
from providers.adapters.engine_load import METRICS_PATH, EngineLoad, read_engine_load
from providers.adapters.probe import ProbeResponse
from providers.catalogue import ENGINE_PROBES
from providers.transport.read_body import read_body
from providers.transport.response_stream import ResponseTooLarge

log = logging.getLogger(__name__)

_PROBE_BYTES = 4 * 1024 * 1024
# An engine replaced without a pause by another with the same models is noticed after at most this long.
_RECOGNITION_INTERVAL_S = 60.0
# How long an operation waits for its effect to show in a probe.
_REPROBE_WAIT_S = 3.0


class Prober:
    """Probes each engine endpoint every `probe_interval_s`, in a task of its own: a slow endpoint delays no other.

    watch() replaces the endpoints and starts a round at once. Hosted providers are never probed.
    """

    def __init__(self, settings: Settings, transport: httpx2.AsyncBaseTransport) -> None:
        self._settings = settings
        self._transport = transport
        self._endpoints: Collection[Endpoint] = ()
        self._endpoints_changed = asyncio.Event()
        self.rounds = BackgroundTask("probing", self._probe_all)
        self.load_rounds = BackgroundTask("engine loads", self._read_loads)
        self._tasks: dict[Endpoint, asyncio.Task[None]] = {}
        self._choosable: Collection[Endpoint] = ()
        self._load_tasks: dict[Endpoint, asyncio.Task[None]] = {}

    def watch(self, endpoints: Collection[Endpoint], choosable: Collection[Endpoint] = ()) -> None:
        """Sets which endpoints are probed. `choosable` are those that share a target with others, whose load decides which of them gets a
        request.
        """
        self._endpoints = endpoints
        self._choosable = choosable
        self._endpoints_changed.set()

    def start(self) -> None:
        self.rounds.start()
        if self._settings.load_interval_s:
            self.load_rounds.start()

    def stop(self) -> None:
        self.rounds.cancel()
        self.load_rounds.cancel()
        for task in (*self._tasks.values(), *self._load_tasks.values()):
            task.cancel()

    async def reprobe(self, endpoint: Endpoint) -> None:
        """Recognises an endpoint anew after an operation changed it. Returns when that is done, or after a few seconds."""
        if not endpoint.is_probed:
            return
        if (running := self._tasks.get(endpoint)) is not None:
            await asyncio.wait((running,), timeout=_REPROBE_WAIT_S)
        endpoint.learned_at = None
        await asyncio.wait((self._start_probe(endpoint),), timeout=_REPROBE_WAIT_S)

    async def _probe_all(self) -> None:
        while True:
            self._endpoints_changed.clear()
            for endpoint in self._endpoints:
                if endpoint.is_probed:
                    self._start_probe(endpoint)
            try:
                async with asyncio.timeout(self._settings.probe_interval_s):
                    await self._endpoints_changed.wait()
            except TimeoutError:
                pass

    async def _read_loads(self) -> None:
        """The load of each endpoint that requests choose from, in tasks of their own."""
        while True:
            for endpoint in self._choosable:
                if endpoint.health == "ready" and endpoint not in self._load_tasks:
                    task = self._load_tasks[endpoint] = asyncio.create_task(self._read_load(endpoint))
                    task.add_done_callback(functools.partial(self._forget_load_task, endpoint))
                elif endpoint.health != "ready":
                    endpoint.load.note_engine_load(None)
            await asyncio.sleep(self._settings.load_interval_s)

    def _forget_load_task(self, endpoint: Endpoint, _task: asyncio.Task[None]) -> None:
        self._load_tasks.pop(endpoint, None)

    async def _read_load(self, endpoint: Endpoint) -> None:
        """An engine without the metrics, or whose page cannot be read, counts by this worker's own requests alone."""
        probe = ENGINE_PROBES.get(endpoint.provider.name)
        if probe is None or probe.load_metrics is None or endpoint.metrics_missing_at == endpoint.learned_at:
            return
        load: EngineLoad | None = None
        try:
            page = await self._get(endpoint, METRICS_PATH)
            if page.status == 200:
                load = read_engine_load(page.body, probe.load_metrics)
            if load is None and page.status < 500:
                endpoint.metrics_missing_at = endpoint.learned_at  # until it is recognised anew
        except httpx2.TransportError:
            pass  # its probe shows it
        endpoint.load.note_engine_load(load)

    def _start_probe(self, endpoint: Endpoint) -> asyncio.Task[None]:
        """The probe of this endpoint that is running, or a new one: one at a time for each endpoint."""
        task = self._tasks.get(endpoint)
        if task is None:
            task = self._tasks[endpoint] = asyncio.create_task(self._probe_safely(endpoint))
            task.add_done_callback(lambda _: self._tasks.pop(endpoint, None))
        return task

    async def _probe_safely(self, endpoint: Endpoint) -> None:
        try:
            await self._probe(endpoint)
        except httpx2.TransportError as fault:
            if endpoint.health != "unreachable":
                masked = endpoint.secret_mask.mask(repr(fault))
                log.warning("an endpoint cannot be reached", extra={"endpoint": endpoint.base_url, "fault": masked})
            self._mark_down(endpoint, "unreachable")
        except Exception:  # an unreadable response of any kind must not end the probing of this endpoint
            masked = endpoint.secret_mask.mask(traceback.format_exc())
            log.error("an endpoint's response to its probe cannot be read", extra={"endpoint": endpoint.base_url, "traceback": masked})

    async def _probe(self, endpoint: Endpoint) -> None:
        """Lists the models, recognises the engine where it may have changed, and checks its health. Raises httpx2.TransportError.

        The models come first: they show whether the engine is still the same one, and a health check that is cheap for one engine
        runs a generation on another.
        """
        models = await self._get(endpoint, probing.MODELS_PATH)
        if models.status in (401, 403) and endpoint.reload_credential():
            models = await self._get(endpoint, probing.MODELS_PATH)
        endpoint.answered_s = time.time()
        responses = {probing.MODELS_PATH: models}
        # A 5xx of an engine that is starting, or of a proxy before it, does not show which engine it is.
        if models.status < 500 and _needs_recognition(endpoint, models):
            found = probing.identify_engine(await self._fetch_probe_responses(endpoint, responses))
            if probing.shows_no_api(found, models) and await self._lacks_api(endpoint):
                self._note_missing_api(endpoint)
                return
            endpoint.apply_probe_result(found)
        probe_result = endpoint.probe_result
        path = (
            probing.MODELS_PATH if probe_result is None or probe_result.engine is None else ENGINE_PROBES[probe_result.engine].health_path
        )
        if probing.is_ready(responses.get(path) or await self._get(endpoint, path)):
            is_refused = probing.refuses_credential(models) and not endpoint.is_for_callers_credentials
            endpoint.health = "refused" if is_refused else "ready"
            if endpoint.breaker.open_until:
                endpoint.load.cool_down()
            endpoint.breaker.close()
        else:
            self._mark_down(endpoint, "not_ready")

    async def _lacks_api(self, endpoint: Endpoint) -> bool:
        return probing.lacks_api(await send_probe(self._transport, endpoint.empty_request()))

    def _note_missing_api(self, endpoint: Endpoint) -> None:
        """It is recognised anew at the next probe, and tried last until then."""
        if endpoint.health != "no_api":
            log_fields = {"endpoint": endpoint.base_url, "provider": endpoint.provider.configured_as}
            log.warning("there is no such API at the address of a provider", extra=log_fields)
        endpoint.learned_at = None
        self._mark_down(endpoint, "no_api")

    async def _fetch_probe_responses(self, endpoint: Endpoint, responses: dict[str, ProbeResponse]) -> Mapping[str, ProbeResponse]:
        """Every response that probing.identify_engine() needs, by path; those given are not fetched again."""
        while paths := [path for path in probing.next_paths(responses) if path not in responses]:
            fetched = await asyncio.gather(*(self._get_if_there(endpoint, path) for path in paths))
            responses.update(zip(paths, fetched, strict=True))
        return responses

    async def _get_if_there(self, endpoint: Endpoint, path: str) -> ProbeResponse:
        try:
            return await self._get(endpoint, path)
        except httpx2.TransportError:
            return ProbeResponse(0, b"")

    async def _get(self, endpoint: Endpoint, path: str) -> ProbeResponse:
        return await send_probe(self._transport, endpoint.probe_request(path))

    def _mark_down(self, endpoint: Endpoint, health: Health) -> None:
        endpoint.health = health
        endpoint.breaker.open_for(max(self._settings.breaker_open_s, 2 * self._settings.probe_interval_s))


async def send_probe(transport: httpx2.AsyncBaseTransport, request: httpx2.Request) -> ProbeResponse:
    """The status and the body, which is empty if it is too large to be a probe's."""
    response = await transport.handle_async_request(request)
    try:
        return ProbeResponse(response.status_code, await read_body(response, _PROBE_BYTES))
    except ResponseTooLarge:
        return ProbeResponse(response.status_code, b"")
    finally:
        await response.aclose()


def _needs_recognition(endpoint: Endpoint, models: ProbeResponse) -> bool:
    """Returns whether it is time to find out which engine this is.

    It is at first, after it was unreachable or failed a request, once a minute, and when its models show
    another engine.
    """
    if endpoint.probe_result is None or endpoint.learned_at is None:
        return True
    if endpoint.health == "unreachable" or endpoint.breaker.consecutive_failures:
        return True
    return time.monotonic() - endpoint.learned_at > _RECOGNITION_INTERVAL_S or probing.has_changed(endpoint.probe_result, models)
