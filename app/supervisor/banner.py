"""The text that `narthex up` prints once everything answers: an address, a key, and examples that work when pasted."""

import shlex
import sys

from app.api.server.tls_certificate import load_certificate
from app.settings import Settings
from app.supervisor.machine.gateway_url import reachable_admin_url, reachable_url

_TEXT = """\

Narthex is up.

{dashboard}  Base URL    {url}/v1
  API key     {key}
  Reference   {admin_url}/docs
  Admin API   {admin_url}/admin/v1
  Admin key   in {home}/admin-key
  Logs        in {home}/logs

Send a request (the sandbox is a small built-in engine that generates random text; it needs no GPU):

curl {url}/v1/chat/completions \\
  -H "Authorization: Bearer {key}" \\
  -H "Content-Type: application/json" \\
  -d '{{"model": "sandbox", "messages": [{{"role": "user", "content": "Hello!"}}]}}'

Or with the official OpenAI SDK:

{python} - <<'END'
from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="{key}")
response = client.chat.completions.create(model="sandbox", messages=[{{"role": "user", "content": "Hello!"}}])
print(response.choices[0].message.content)
END

Ctrl-C stops everything; the data stays in {home}.
"""

_TLS = """
The certificate in {path} is for {names}: clients that verify it, as they should, must trust its issuer and call the gateway by such a name.
"""


_DASHBOARD = """\
  Dashboard   {address}
              ({sign_in})

"""
_SIGNS_IN = "this link signs you in once, within 15 minutes; later sign in with the admin key"
_WITH_KEY = "sign in with the admin key"


def banner_text(settings: Settings, key: str, code: str | None = None) -> str:
    """The text for this gateway, with `key` as the caller's key. `code` is for the dashboard's one-time link."""
    url, admin_url = reachable_url(settings), reachable_admin_url(settings)
    dashboard = _dashboard(f"{settings.public_url or admin_url}/dashboard", code) if settings.dashboard == "on" else ""
    addresses = {"url": url, "admin_url": admin_url, "dashboard": dashboard}
    text = _TEXT.format(**addresses, key=key, home=settings.home, python=shlex.quote(sys.executable))
    certificate = load_certificate(settings)
    if certificate is None:
        return text
    return text + _TLS.format(names=", ".join(certificate.names) or "no name", path=settings.tls_cert)


def _dashboard(page: str, code: str | None) -> str:
    if code is None:
        return _DASHBOARD.format(address=page, sign_in=_WITH_KEY)
    # In the fragment, which browsers send to nobody: the page exchanges it for a session.
    return _DASHBOARD.format(address=f"{page}/sign-in#once={code}", sign_in=_SIGNS_IN)
