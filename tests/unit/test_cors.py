"""CORS: which headers an origin gets, which settings are refused, and that scripts may read every header of ours."""

import re
from pathlib import Path

import pytest

from app.api.server.cors import EXPOSED_HEADERS, Cors
from app.settings import BadSetting, Origins, Settings
from providers.canonical.errors import NotAllowed

SOURCES = Path(__file__).parents[2] / "app" / "api"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("https://app.example.com/", "without a slash"),
        ("app.example.com", "scheme"),
        ("https://App.example.com", "lower case"),
        ("https://app.example.com:443", "without the port"),
        ("*, https://app.example.com", "stands alone"),
        ("null", "scheme"),
        ("https://*.example.com", "not an origin"),
    ],
)
def test_setting_that_is_no_origin_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(BadSetting, match=problem) as refusal:
        Settings.read({"NARTHEX_CORS_ORIGINS": text})
    assert str(refusal.value).startswith("NARTHEX_CORS_ORIGINS=")


def test_origins_of_apps_ports_and_addresses_are_taken() -> None:
    text = "https://app.example.com, http://localhost:5173,tauri://localhost,http://[::1]:3000"
    assert len(Settings.read({"NARTHEX_CORS_ORIGINS": text}).cors_origins.parsed) == 4


def test_any_origin_never_comes_with_credentials() -> None:
    cors = Cors(Origins("*"))
    for headers in (
        dict(cors.response_headers(b"https://anywhere.example", is_admin=True)),
        dict(cors.preflight_headers(b"https://anywhere.example", b"authorization", is_admin=True)),
    ):
        assert headers[b"access-control-allow-origin"] == b"*" and b"access-control-allow-credentials" not in headers


def test_credentials_are_for_exact_origins_on_admin_routes_only() -> None:
    cors = Cors(Origins("https://app.example.com"))
    origin = b"https://app.example.com"
    assert dict(cors.response_headers(origin, is_admin=True))[b"access-control-allow-credentials"] == b"true"
    assert b"access-control-allow-credentials" not in dict(cors.response_headers(origin, is_admin=False))
    for other in (b"https://app.example.com.evil.example", b"null", b"", None):
        assert cors.response_headers(other, is_admin=True) == [(b"vary", b"origin")]
    with pytest.raises(NotAllowed):
        cors.preflight_headers(b"https://evil.example", b"authorization", is_admin=False)


def test_preflight_repeats_names_of_headers_and_nothing_else() -> None:
    cors = Cors(Origins("https://app.example.com"))
    asked = b"authorization,content-type, x-stainless-lang"
    assert dict(cors.preflight_headers(b"https://app.example.com", asked, is_admin=False))[b"access-control-allow-headers"] == asked
    for bad in (b"", b"a b", b"a:b", b",a"):
        assert b"access-control-allow-headers" not in dict(cors.preflight_headers(b"https://app.example.com", bad, is_admin=False))


def test_every_header_that_responses_have_can_be_read_by_scripts() -> None:
    written = set(re.findall(r'b"(x-narthex-[a-z-]+): %b|(x-narthex-replayed)', (SOURCES / "callers" / "response_sink.py").read_text()))
    assert {one or other for one, other in written} <= set(EXPOSED_HEADERS) and len(written) > 6
