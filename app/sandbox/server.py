"""The sandbox as a process: uvicorn, and a way to cut a response."""

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.sandbox.engine import SandboxApp
from app.sandbox.protocol.connection import CUT_EXTENSION
from app.sandbox.response_head import FINGERPRINT


class CuttableProtocol(HttpToolsProtocol):
    """Lets the app close its connection. Returning early would send a 500 first, and raising would also log an error."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CUT_EXTENSION: {"close": self.transport.close}}


def build() -> SandboxApp:
    return SandboxApp()


def server_config(host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        build(),
        host=host,
        port=port,
        loop="uvloop",
        http=CuttableProtocol,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        headers=[("server", FINGERPRINT)],
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=2,
    )


def serve(host: str, port: int) -> None:
    """Serves until SIGTERM or SIGINT; then gives requests in progress two seconds to finish."""
    uvicorn.Server(server_config(host, port)).run()
