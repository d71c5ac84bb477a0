"""The sandbox as a process: uvicorn with one thing added, that an answer can be cut."""

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.local.sandbox.chat import FINGERPRINT
from app.local.sandbox.engine import Sandbox
from app.local.sandbox.line import CUT


class CuttableProtocol(HttpToolsProtocol):
    """Lets the app close its connection. Returning early does that only after a 500, and raising also logs an error."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CUT: {"close": self.transport.close}}


def build() -> Sandbox:
    return Sandbox()


def configured(host: str, port: int) -> uvicorn.Config:
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
    """Answers until SIGTERM or SIGINT; then finishes what it can within two seconds."""
    uvicorn.Server(configured(host, port)).run()
