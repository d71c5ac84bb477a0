"""The listening socket: an address that others can reach is named to the operator."""

from dataclasses import replace

import pytest

from app.settings import Networks, Settings
from app.supervisor.machine.ports import exposure_warning, listener_settings, open_listener


@pytest.mark.parametrize(
    ("host", "proxies", "warns"),
    [("0.0.0.0", "", True), ("::", "", True), ("127.0.0.1", "", False), ("::1", "", False), ("0.0.0.0", "10.0.0.0/8", False)],
)
def test_listening_beyond_loopback_without_tls_is_warned_of_in_one_line(host: str, proxies: str, warns: bool):
    settings = Settings(host=host, port=0, trusted_proxies=Networks(proxies))
    [address] = listener_settings(settings)
    with open_listener(address) as listener:
        warning = exposure_warning(listener, address, settings)
        assert exposure_warning(listener, address, replace(settings, tls_cert="cert.pem", tls_key="key.pem")) is None
    assert (warning is not None) == warns
    if warning is not None:
        assert "\n" not in warning and "without TLS" in warning and "NARTHEX_TRUSTED_PROXIES" in warning and "NARTHEX_TLS_CERT" in warning
