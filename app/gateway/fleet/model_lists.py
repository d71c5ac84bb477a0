"""Reads hourly what hosts' own lists say of their models, with the operator's own credential, and lets that overrule our tables.

Each worker reads for itself, at a moment of its own in the hour: one small GET that costs nothing, needs no Redis, and cannot fail for all
workers at once. What a list says is kept while it cannot be had anew.
"""

import asyncio
import logging
import random

import httpx2

from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from app.gateway.fleet.probe import send_probe
from app.process.background_tasks import BackgroundTask
from app.settings import Settings
from providers.adapters.urls import server_root
from providers.credentials import CredentialError
from providers.transport.response_stream import ResponseTooLarge

log = logging.getLogger(__name__)

_FIRST_WITHIN_S = 5.0
_AGAIN_AFTER_FAILURE_S = 300.0
_LOOK_INTERVAL_S = 5.0
_MAX_PAGES = 5
_TIMEOUT_S = 20.0


class ModelLists:
    """Reads what hosts' own lists say of their models, again and again."""

    def __init__(self, settings: Settings, fleet: Fleet) -> None:
        self._interval_s = settings.model_list_interval_s
        self._fleet = fleet
        # when the list of an endpoint is read next, by the loop's time; an endpoint that a new configuration brings comes soon
        self._due: dict[Endpoint, float] = {}
        self.task = BackgroundTask("model lists", self._keep_reading)

    async def _keep_reading(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            endpoints = [each for each in self._fleet.endpoints if self._is_read(each)]
            soon = loop.time() + random.uniform(0, min(_FIRST_WITHIN_S, self._interval_s))
            self._due = {each: self._due.get(each, soon) for each in endpoints}
            for endpoint in [each for each, due in self._due.items() if due <= loop.time()]:
                was_read = await self._read(endpoint)
                pause_s = self._interval_s if was_read else min(_AGAIN_AFTER_FAILURE_S, self._interval_s)
                self._due[endpoint] = loop.time() + pause_s * random.uniform(0.9, 1.1)
            await asyncio.sleep(min(_LOOK_INTERVAL_S, self._interval_s or _LOOK_INTERVAL_S))

    def _is_read(self, endpoint: Endpoint) -> bool:
        """Returns whether the endpoint's list is read.

        It never is with a caller's credential: what its account may use is its own matter.
        """
        return self._interval_s > 0 and endpoint.provider.model_list_path is not None and endpoint.has_own_credential

    async def _read(self, endpoint: Endpoint) -> bool:
        provider = endpoint.provider
        about = {"provider": provider.configured_as, "endpoint": endpoint.base_url}
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                pages = await self._read_pages(endpoint)
        except (httpx2.TransportError, CredentialError, ResponseTooLarge, TimeoutError, ValueError) as fault:
            log.info("a host's list of models cannot be had", extra={**about, "fault": endpoint.secret_mask.mask(repr(fault))})
            return False
        overruled = provider.apply_model_list(pages)
        if overruled:
            log.info("a host's list of models says something else than our table", extra={**about, "models": overruled})
        return True

    async def _read_pages(self, endpoint: Endpoint) -> list[bytes]:
        """Raises ValueError for what is no list, beside what sending raises."""
        pages: list[bytes] = []
        path = endpoint.provider.model_list_path
        while path is not None and len(pages) < _MAX_PAGES:
            url = httpx2.URL(server_root(endpoint.base_url) + path)
            response = await send_probe(self._fleet.transport, endpoint.build_request(url, b"", "GET"))
            if response.status != 200:
                raise ValueError(f"the status is {response.status}")
            pages.append(response.body)
            path = endpoint.provider.next_model_page(response.body)
        return pages
