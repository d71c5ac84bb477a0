"""Addresses that are not called: metadata services, link-local ones and our own, however they are written and whatever a name means now."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from app.settings import BadSetting, Settings
from providers.transport.address_guard import AddressGuard, AddressRefused, AllowedAddresses, HostAndPort
from providers.transport.proxy import Proxy
from providers.transport.transport import Transport
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

SETTING = "THE_SETTING"


def guard(*own: tuple[str, int], allowed: str = "", names: frozenset[HostAndPort] = frozenset()) -> AddressGuard:
    return AddressGuard(own, names, AllowedAddresses(allowed), SETTING)


@pytest.fixture
async def engine() -> AsyncGenerator[ScriptedEngine]:
    async def respond(request: ReceivedRequest) -> None:
        await request.respond(200, b"{}")

    engine = ScriptedEngine()
    engine.get_responses["/v1/models"] = respond
    await engine.start()
    yield engine
    await engine.stop()


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "169.254.170.2", "fe80::1", "fd00:ec2::254", "168.63.129.16", "100.100.100.200"),
        *("2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.254.0251.254", "169.16689662"),
        *("::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"),
        *("metadata.google.internal", "METADATA.google.internal.", "metadata"),
    ],
)
def test_metadata_services_are_refused_however_they_are_written(host: str):
    with pytest.raises(AddressRefused, match=f"not called unless {SETTING}"):
        guard().check_host(host, 80)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "0x7f000001", "2130706433", "127.1"]
)
def test_ourselves_are_refused_at_our_port_alone(host: str):
    own = guard(("0.0.0.0", 8787))
    with pytest.raises(AddressRefused, match="the gateway itself"):
        own.check_host(host, 8787)
    own.check_host(host, 8000)


def test_each_address_of_this_machine_is_ours_where_we_listen_on_all_of_them():
    for address in {str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), 8787)}:
        with pytest.raises(AddressRefused, match="the gateway itself"):
            guard(("0.0.0.0", 8787)).check_host(address, 8787)
    guard(("0.0.0.0", 8787)).check_host("10.255.255.254", 8787)
    guard(("10.255.255.254", 8787)).check_host("127.0.0.1", 8787)


def test_our_public_address_is_refused_by_its_name():
    own = guard(names=frozenset({HostAndPort("narthex.example.com", 443)}))
    with pytest.raises(AddressRefused, match="the gateway itself"):
        own.check_host("Narthex.Example.com.", 443)
    own.check_host("narthex.example.com", 8443)
    own.check_host("engine.example.com", 443)


@pytest.mark.parametrize("host", ["10.0.0.5", "192.168.1.1", "127.0.0.1", "::1", "fd00::1", "engine.local", "api.openai.com", "8.8.8.8"])
def test_engines_on_this_machine_and_in_private_networks_are_called(host: str):
    guard(("127.0.0.1", 8787)).check_host(host, 8000)


@pytest.mark.parametrize(
    ("allowed", "host", "port"),
    [
        ("169.254.10.1", "169.254.10.1", 8000),
        ("169.254.10.0/24", "169.254.10.7", 8000),
        ("169.254.10.1:8000", "::ffff:169.254.10.1", 8000),
        ("[fe80::1]:8000", "fe80::1", 8000),
        ("10.0.0.1, metadata.google.internal", "metadata.google.internal", 80),
        ("LOCALHOST:8787", "localhost", 8787),
        ("127.0.0.1:8787", "127.0.0.1", 8787),
    ],
)
def test_what_the_setting_names_is_called(allowed: str, host: str, port: int):
    with pytest.raises(AddressRefused):
        guard(("127.0.0.1", 8787)).check_host(host, port)
    guard(("127.0.0.1", 8787), allowed=allowed).check_host(host, port)


def test_an_allowed_port_allows_no_other():
    with pytest.raises(AddressRefused):
        guard(allowed="169.254.10.1:8000").check_host("169.254.10.1", 80)
    with pytest.raises(AddressRefused):
        guard(allowed="169.254.10.1").check_host("169.254.169.254", 80)


@pytest.mark.parametrize("text", ["http://x", "a:b:c/8", "x:99999", "169.254.0.0/99", "*.x", "[fe80::1]8000"])
def test_an_invalid_setting_is_refused(text: str):
    with pytest.raises(BadSetting, match="NARTHEX_ALLOWED_ADDRESSES"):
        Settings.read({"NARTHEX_ALLOWED_ADDRESSES": text})


def test_the_guard_of_the_settings_knows_both_listeners_and_the_public_address():
    settings = Settings.read(
        {
            "NARTHEX_PORT": "8787",
            "NARTHEX_ADMIN_PORT": "8788",
            "NARTHEX_PUBLIC_URL": "https://narthex.example.com",
            "NARTHEX_OIDC_ISSUER": "https://login.example.com/realms/main",
        }
    )
    for host, port in (("127.0.0.1", 8787), ("localhost", 8788), ("narthex.example.com", 443)):
        with pytest.raises(AddressRefused):
            settings.address_guard.check_host(host, port)
    settings.address_guard.check_host("login.example.com", 443)


def test_an_issuer_behind_the_same_proxy_as_the_gateway_is_called():
    environ = {"NARTHEX_PUBLIC_URL": "https://example.com", "NARTHEX_OIDC_ISSUER": "https://example.com/auth"}
    Settings.read(environ).address_guard.check_host("example.com", 443)


async def get(transport: Transport, url: str, **extensions: Any) -> int:
    request = httpx2.Request("GET", url, extensions={"timeout": {"connect": 2.0, "total": 5.0}, **extensions})
    response = await transport.handle_async_request(request)
    await response.aclose()
    return response.status_code


async def test_a_name_is_refused_by_what_it_means_when_it_is_called(engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch):
    addresses = ["127.0.0.1"]

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        assert host == "engine.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    transport = Transport(guard=guard(("127.0.0.1", 1)))
    url = f"http://engine.example:{engine.port}/v1/models"
    assert await get(transport, url) == 200
    await transport.aclose()
    # A record that changes between the configuration and the call, and one among good ones.
    for now in (["169.254.169.254"], ["127.0.0.1", "169.254.169.254"], ["::ffff:169.254.169.254"]):
        addresses[:] = now
        transport = Transport(guard=guard())
        with pytest.raises(httpx2.ConnectError, match=r"engine\.example \(.*169\.254\.169\.254\)|engine\.example \(::ffff") as failed:
            await get(transport, url)
        assert isinstance(failed.value.__cause__, AddressRefused)
        await transport.aclose()
    assert len(engine.get_requests) == 1


async def test_the_next_address_of_a_name_is_tried_where_the_first_takes_no_connection(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
):
    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    transport = Transport(guard=guard())
    assert await get(transport, f"http://engine.example:{engine.port}/v1/models") == 200
    await transport.aclose()


async def test_a_refused_address_gets_no_connection_that_the_machines_own_credential_opened(engine: ScriptedEngine):
    """The metadata service is called for the machine's own credential, and its connection is kept: a provider must not ride on it."""
    url = f"http://127.0.0.1:{engine.port}/v1/models"
    transport = Transport(guard=guard(("127.0.0.1", engine.port)))
    assert await get(transport, url, unguarded=True) == 200
    with pytest.raises(httpx2.ConnectError, match="the gateway itself"):
        await get(transport, url)
    assert len(engine.get_requests) == 1
    await transport.aclose()


async def test_no_proxy_gets_a_refused_name():
    transport = Transport(guard=guard(), proxy=Proxy("http://127.0.0.1:1"))
    with pytest.raises(httpx2.ConnectError, match="metadata service"):
        await get(transport, "https://metadata.google.internal/")
    await transport.aclose()
