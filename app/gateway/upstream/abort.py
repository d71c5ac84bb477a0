"""AbortSender: tells engines to stop requests that would go on after their connection is closed."""

import asyncio
import logging

import httpx2

from app.gateway.credentials.client import CredentialClient
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.upstream.body import response_stream
from providers.credentials import CredentialError

log = logging.getLogger(__name__)


class AbortSender:
    """Sends aborts in the background, so that release() need not wait."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport
        self._sending: set[asyncio.Task[None]] = set()

    def abort(self, endpoint: Endpoint, credential_client: CredentialClient, id: str) -> None:
        """Tells the engine to stop the request that it knows by `id`. Does nothing at engines that stop when the connection closes."""
        abort_parts = endpoint.provider.abort_request(endpoint.base_url, id)
        if abort_parts is None:
            return
        try:
            request = endpoint.build_request(*abort_parts, credential_client=credential_client)
        except CredentialError:  # it was removed since the request was sent
            return
        task = asyncio.create_task(self._send(request))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, request: httpx2.Request) -> None:
        try:
            response = await self._transport.handle_async_request(request)
            await response_stream(response).aclose()
        except httpx2.TransportError as fault:
            log.info("an engine could not be told to stop a request", extra={"url": str(request.url), "fault": repr(fault)})
