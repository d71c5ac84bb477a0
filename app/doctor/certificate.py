"""Whether the listeners' certificate can be used, and how long it lasts."""

import time
from datetime import UTC, datetime

from app.api.server.tls_certificate import BadCertificate, load_certificate
from app.doctor.findings import Finding, Findings
from app.settings import Settings

_WARN_S = 14 * 86400.0


def diagnose(settings: Settings) -> list[Finding]:
    """Returns the findings about the certificate. Without one there are none: the listeners speak plain HTTP."""
    findings = Findings("certificate")
    try:
        certificate = load_certificate(settings)
    except BadCertificate as fault:
        findings.add_error(fault.problem, fault.advice)
        return findings.finish("")
    if certificate is None:
        return []
    ends = f"{datetime.fromtimestamp(certificate.expires_at, UTC):%Y-%m-%d %H:%M} UTC"
    if certificate.expires_at < time.time():
        findings.add_error(f"The certificate in {settings.tls_cert} ended at {ends}: callers refuse it.", "Renew it; no restart is needed.")
    elif certificate.expires_at < time.time() + _WARN_S:
        findings.add_warning(f"The certificate in {settings.tls_cert} ends at {ends}.", "Renew it; no restart is needed.")
    return findings.finish(f"The certificate is for {', '.join(certificate.names) or 'no name'}, until {ends}.")
