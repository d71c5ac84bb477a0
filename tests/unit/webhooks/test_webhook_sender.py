"""Webhooks are never sent to an address that is neither public nor allowed, whatever its name means at the moment."""

import asyncio
from collections.abc import Collection
from typing import Any, cast

import httpx2
import pytest

from app.settings import Networks, Settings
from app.store.postgres.vault import Vault
from app.store.webhooks.webhook_events import DueDelivery
from app.store.webhooks.webhooks import new_secret, vault_name
from app.webhooks.delivery import RETRIES_S, retry_after_s
from app.webhooks.sender import WebhookSender
from app.webhooks.signature import signature_headers
from providers.transport.transport import Transport

VAULT = Vault(["0123456789abcdefghijklmnopqrstuvwxyz"])


class FakeTransport(httpx2.AsyncBaseTransport):
    """Notes where requests go; `status`: of every response."""

    def __init__(self, status: int = 200) -> None:
        self.requests: list[httpx2.Request] = []
        self.status = status

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(self.status, headers={"location": "http://10.0.0.1/"}, stream=httpx2.ByteStream(b"x" * 100_000))


def due(url: str) -> DueDelivery:
    return DueDelivery("d", "w", "e", url, VAULT.encrypt(vault_name("w"), new_secret()), '{"type": "webhook.test"}', 1)


async def send(
    url: str, addresses: Collection[str], networks: str = "", status: int = 200, vault: Vault = VAULT
) -> tuple[Any, FakeTransport]:
    async def resolve(host: str, port: int) -> Collection[str]:
        return addresses

    transport = FakeTransport(status)
    sender = WebhookSender(Settings(webhook_networks=Networks(networks)), vault, cast(Transport, transport), resolve)
    sent = await sender.send(due(url))
    await sender.aclose()
    return sent, transport


@pytest.mark.parametrize("address", ["10.1.2.3", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"])
async def test_private_addresses_get_nothing(address: str):
    for addresses in ([address], ["93.184.215.14", address]):
        sent, transport = await send("https://hooks.test/", addresses)
        assert (sent.status, transport.requests) == (None, []) and "no public address" in sent.error


async def test_the_connection_goes_to_the_checked_address_under_the_name_of_the_host():
    sent, transport = await send("https://hooks.test:8443/a?b=c", ["93.184.215.14"])
    [request] = transport.requests
    assert (sent.status, sent.error) == (200, None)
    assert (str(request.url), request.headers["host"]) == ("https://93.184.215.14:8443/a?b=c", "hooks.test:8443")
    assert request.extensions["sni_hostname"] == "hooks.test"


async def test_http_is_for_allowed_networks_only():
    assert (await send("http://hooks.test/", ["10.1.2.3"], "10.0.0.0/8"))[0].error is None
    sent, transport = await send("http://hooks.test/", ["93.184.215.14"], "10.0.0.0/8")
    assert "http is only for hosts" in sent.error and not transport.requests


async def test_redirects_are_errors_and_nothing_of_a_response_is_kept():
    sent, transport = await send("https://hooks.test/", ["93.184.215.14"], status=307)
    assert (sent.status, sent.error, len(transport.requests)) == (307, "the response has status 307, and redirects are not followed", 1)


async def test_a_writer_without_the_key_says_so():
    sent, transport = await send("https://hooks.test/", ["93.184.215.14"], vault=Vault([]))
    assert "NARTHEX_SECRET_KEY" in sent.error and not transport.requests


async def test_a_name_that_is_not_resolved_in_time_is_an_error():
    async def never(host: str, port: int) -> Collection[str]:
        await asyncio.Event().wait()
        return ()

    sender = WebhookSender(Settings(webhook_timeout_s=0.05), VAULT, cast(Transport, FakeTransport()), never)
    assert (await sender.send(due("https://hooks.test/"))).error == "no response within 0.05 s"
    await sender.aclose()


def test_retries_go_on_for_more_than_a_day_and_then_end():
    waits = [retry_after_s(attempts) for attempts in range(1, len(RETRIES_S) + 2)]
    assert waits[-1] is None and all(waits[:-1]) and sum(filter(None, waits)) > 24 * 3600


def test_a_signature_is_that_of_the_published_example():
    """The example is from the tests of the standard's own library.

    Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/python/tests/test_webhooks.py, read 2026-11.
    """
    body = b'{"test": 2432232314}'
    headers = dict(signature_headers("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body))
    assert headers[b"webhook-signature"] == b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
