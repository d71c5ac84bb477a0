"""TLS of the listeners: the context for new connections, and the task that exchanges its certificate when the files change.

Connections keep the certificate with which they began, so none is dropped. Each gateway process watches the files for itself.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable

from app.api.server.tls_certificate import BadCertificate, Certificate, fingerprint, load_certificate
from app.process.background_tasks import BackgroundTask
from app.settings import Settings

log = logging.getLogger(__name__)

_CHECK_S = 5.0


class TlsListener:
    """Keeps the certificate of a listener current; its `context` is for asyncio's create_server().

    `on_load` is called with the end of each certificate that comes into force. Raises BadCertificate for what cannot be used at the start;
    later that is logged, and the last good certificate stays in force.
    """

    def __init__(self, settings: Settings, certificate: Certificate, on_load: Callable[[float], None]) -> None:
        self._settings = settings
        self._on_load = on_load
        self._loaded = fingerprint(settings)
        self._current = self.context = certificate.context
        # A new context for each certificate: one that is loaded into the same would leave a key of another type (RSA, then an elliptic
        # curve) beside the new one, and a broken one would leave neither.
        self.context.sni_callback = self._choose_context
        self.task = BackgroundTask("tls certificate", self._watch)
        on_load(certificate.expires_at)

    def _choose_context(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, initial: ssl.SSLContext) -> None:
        """OpenSSL calls it in each handshake, whether the client has sent a name or not."""
        if self._current is not initial:
            connection.context = self._current

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            await asyncio.to_thread(self._load_if_changed)

    def _load_if_changed(self) -> None:
        # Taken before the files are read: what changes meanwhile is seen by the next check.
        found = fingerprint(self._settings)
        if found == self._loaded:
            return
        self._loaded = found
        try:
            certificate = load_certificate(self._settings)
        except BadCertificate as fault:
            log.error("the new TLS certificate is not used", extra={"problem": fault.problem, "advice": fault.advice})
            return
        assert certificate is not None  # the settings do not change
        self._current = certificate.context
        self._on_load(certificate.expires_at)
        log.info("a new TLS certificate is used", extra={"names": ", ".join(certificate.names)})


def open_tls(settings: Settings, on_load: Callable[[float], None]) -> TlsListener | None:
    """Returns the TLS listener, or None if the listeners speak plain HTTP. Raises BadCertificate."""
    certificate = load_certificate(settings)
    return None if certificate is None else TlsListener(settings, certificate, on_load)
