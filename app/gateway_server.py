"""uvicorn's server of a gateway process, with its sockets: the callers', and perhaps one of the admin API's own."""

import asyncio
import socket
from typing import Any, cast

import uvicorn

from app.api.server.tls_listener import TlsListener
from app.gateway.pipeline.gateway import Gateway
from app.settings import Settings


class GatewayServer(uvicorn.Server):
    """uvicorn's server, which marks the gateway as draining first: new requests get 503 until the socket is closed.

    With `admin_config`, the second socket has an application and a protocol of its own: which one a connection came to decides what there
    is, and neither its address nor a header can be mistaken for the other. Without `tls` both speak plain HTTP.
    """

    def __init__(
        self, config: uvicorn.Config, settings: Settings, gateway: Gateway, admin_config: uvicorn.Config | None, tls: TlsListener | None
    ) -> None:
        super().__init__(config)
        self._settings = settings
        self._gateway = gateway
        self._admin_config = admin_config
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        await super().startup([])
        await self._listen(self.config, sockets[0])
        if self._admin_config is not None:
            self._admin_config.load()
            await self._listen(self._admin_config, sockets[1])

    async def _listen(self, config: uvicorn.Config, listener: socket.socket) -> None:
        def create_protocol() -> asyncio.Protocol:
            protocol_class = cast(Any, config).http_protocol_class
            return protocol_class(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {
                "ssl": self._tls.context,
                "ssl_handshake_timeout": self._settings.head_timeout_s,
                # It bounds how long a caller may take to read what is left of a response, too.
                "ssl_shutdown_timeout": self._settings.silence_timeout_s,
            }
        server = await asyncio.get_running_loop().create_server(create_protocol, sock=listener, backlog=config.backlog, **tls)
        self.servers.append(server)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._gateway.draining = self._gateway.idempotency.draining = True
        self._gateway.shadows.cancel()
        await super().shutdown(sockets)
