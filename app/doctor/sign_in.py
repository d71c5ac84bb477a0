"""Whether people can sign in: the settings that it needs, and the issuer's discovery document and keys."""

import httpx2

from app.api.sign_in.issuer import Issuer
from app.doctor.findings import Finding, Findings
from app.settings import Settings
from providers.canonical.errors import NarthexError
from providers.transport.transport import Transport


async def diagnose(settings: Settings) -> list[Finding]:
    """Returns the findings about signing in, which are none if it is not configured."""
    if not settings.oidc_issuer:
        return []
    findings = Findings("sign-in")
    needed = {"NARTHEX_OIDC_CLIENT_ID": settings.oidc_client_id, "NARTHEX_PUBLIC_URL": settings.public_url}
    if missing := [name for name, value in needed.items() if not value]:
        findings.add_error(f"NARTHEX_OIDC_ISSUER is set, and {' and '.join(missing)} not.", "docs/sign-in.md says what to set.")
    if "openid" not in settings.oidc_scopes.split():
        findings.add_error("NARTHEX_OIDC_SCOPES lacks `openid`, without which the issuer does not say who signs in.", "Add it.")
    transport = Transport(proxy=settings.proxy, guard=settings.address_guard, ca_bundle=settings.ca_bundle or None)
    try:
        issuer = Issuer(settings, transport)
        discovery = await issuer.discover()
        if not await issuer.keys_for(None):
            findings.add_error("The issuer publishes no key with which it could sign.", "Check the issuer.")
    except NarthexError as fault:
        reason = f" {fault.__cause__}." if isinstance(fault.__cause__, httpx2.TransportError) else ""
        findings.add_error(fault.message + reason, "Until it works, admin keys and tokens of service accounts do.")
        return findings.finish("")
    finally:
        await transport.aclose()
    how = "browsers" if discovery.device_authorization_endpoint is None else "browsers and `narthex login`"
    return findings.finish(f"The issuer {settings.oidc_issuer} answers; it can sign in {how}.")
