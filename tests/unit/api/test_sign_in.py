"""Parts of signing in: tokens that must not be accepted, an issuer that is not what it should be, and how many attempts are served."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Generator
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, generate_key

from app.api.sign_in.attempt_limit import AttemptLimit
from app.api.sign_in.id_token import identify
from app.api.sign_in.issuer import IssuedTokens, Issuer
from app.settings import IssuerUrl, Settings
from providers.canonical.errors import InvalidUpstreamResponse, LimitExceeded, Unavailable
from providers.transport.transport import Transport
from tests.support.processes.oidc_issuer import CLIENT_ID, CLIENT_SECRET, OidcIssuer


@pytest.fixture(scope="module")
def server() -> Generator[OidcIssuer]:
    running = OidcIssuer()
    yield running
    running.close()


@pytest.fixture
async def transport() -> AsyncGenerator[Transport]:
    made = Transport()
    yield made
    await made.aclose()


def settings_for(url: str) -> Settings:
    return Settings(oidc_issuer=IssuerUrl(url), oidc_client_id=CLIENT_ID, oidc_client_secret=CLIENT_SECRET)


@pytest.mark.parametrize("forge", ["none", "client secret", "public key", "key in the header", "nothing"])
async def test_a_token_that_the_issuer_did_not_sign_is_not_accepted(server: OidcIssuer, transport: Transport, forge: str) -> None:
    settings = settings_for(server.url)
    published = server.published_keys[0]
    claims: dict[str, Any] = {"iss": server.url, "aud": CLIENT_ID, "sub": "1", "exp": int(time.time()) + 60}
    own = generate_key("RSA", 2048)
    header: dict[str, Any] = {"kid": published.kid}
    match forge:
        case "none":
            parts = (json.dumps(each).encode() for each in ({**header, "alg": "none"}, claims))
            token = ".".join([*(urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])
        case "client secret":
            token = jwt.encode({**header, "alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET))
        case "public key":
            token = jwt.encode({**header, "alg": "HS256"}, claims, OctKey.import_key(str(published.as_dict(private=False)["n"])))
        case "key in the header":
            token = jwt.encode({"alg": "RS256", "jwk": own.as_dict(private=False)}, claims, own)
        case _:
            token = "a.b.c"
    with pytest.raises(InvalidUpstreamResponse, match="ID token is not accepted"):
        await identify(Issuer(settings, transport), settings, IssuedTokens(token), None)


async def test_an_issuer_that_cannot_be_reached_is_a_503(transport: Transport) -> None:
    settings = settings_for("http://127.0.0.1:9/realms/none")
    with pytest.raises(Unavailable, match=r"issuer cannot be reached\.$") as failed:
        await Issuer(settings, transport).discover()
    assert "127.0.0.1:9" in str(failed.value.__cause__)  # for the operator


async def test_an_issuer_that_is_the_gateway_itself_is_not_called() -> None:
    settings = replace(settings_for("http://127.0.0.1:8787/realms/none"), port=8787)
    transport = Transport(guard=settings.address_guard)
    with pytest.raises(Unavailable) as failed:
        await Issuer(settings, transport).discover()
    assert "the gateway itself" in str(failed.value.__cause__)
    await transport.aclose()


async def test_an_issuer_of_another_name_is_refused_with_its_name(server: OidcIssuer, transport: Transport) -> None:
    with pytest.raises(InvalidUpstreamResponse, match=f"names itself '{server.url}'"):
        await Issuer(settings_for(server.url + "/"), transport).discover()


@pytest.mark.parametrize(
    "url", ["http://login.example.com", "https://", "login.example.com", "https://x.example/?a=1", "https://a@b.example"]
)
def test_an_issuer_is_named_by_an_https_address(url: str) -> None:
    with pytest.raises(ValueError, match="it must be"):
        IssuerUrl(url)


async def test_an_address_may_try_so_often_and_others_still_may() -> None:
    now = 1000.0
    limit = AttemptLimit(lambda: now)

    async def try_from(address: str) -> None:
        async with limit.attempt(ip_address(address)):
            pass

    for number in range(120):
        await try_from(f"2001:db8::{number:x}")
    with pytest.raises(LimitExceeded) as refused:
        await try_from("2001:db8::ffff")
    assert refused.value.retry_after_s == pytest.approx(0.5)
    await try_from("2001:db8:1::1")
    await try_from("10.0.0.1")
    now += 0.5
    await try_from("2001:db8::ffff")
