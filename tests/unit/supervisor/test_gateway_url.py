"""The address at which this machine's own clients reach the gateway, and whether they verify its certificate."""

import ssl
from dataclasses import replace

import pytest

from app.settings import Settings
from app.supervisor.machine.gateway_url import reachable_admin_url, reachable_url, tls_verification

PLAIN = Settings(host="0.0.0.0", port=8787, admin_port=8786, admin_host="::")
TLS = replace(PLAIN, tls_cert="tls.crt", tls_key="tls.key")


def test_addresses_have_the_scheme_that_the_listeners_speak():
    assert (reachable_url(PLAIN), reachable_admin_url(PLAIN)) == ("http://127.0.0.1:8787", "http://[::1]:8786")
    assert (reachable_url(TLS), reachable_admin_url(TLS)) == ("https://127.0.0.1:8787", "https://[::1]:8786")


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:8787", "https://[::1]:8786", "https://127.8.8.8", "https://localhost:1", "http://a.example"]
)
def test_certificate_is_not_verified_on_this_machine(url: str):
    assert tls_verification(TLS, url) is False


@pytest.mark.parametrize("url", ["https://narthex.example.com", "https://localhost.example.com:8787"])
def test_certificate_is_verified_by_name_beyond_this_machine(url: str):
    context = tls_verification(TLS, url)
    assert isinstance(context, ssl.SSLContext) and context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED
