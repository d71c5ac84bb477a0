"""The certificate of the listeners, looked at before anything starts: a gateway process would answer with a traceback in its log."""

import time
from collections.abc import Callable

from app.api.server.tls_certificate import BadCertificate, load_certificate
from app.settings import Settings
from app.supervisor.machine.errors import OperatorError


def check(settings: Settings, report: Callable[[str], None]) -> None:
    """Raises OperatorError if the gateway could not start with it; reports one that has ended, which callers refuse."""
    try:
        certificate = load_certificate(settings)
    except BadCertificate as fault:
        raise OperatorError(str(fault)) from None
    if certificate is not None and certificate.expires_at < time.time():
        report(
            f"Warning: the certificate in {settings.tls_cert} has ended, so callers refuse it. A new one is used as soon as it is there."
        )
