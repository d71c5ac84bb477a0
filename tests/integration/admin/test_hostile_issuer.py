"""An OpenID Connect issuer that was taken over, or is broken, neither stops the gateway nor makes it send anything elsewhere."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import httpx2
import pytest

from tests.support.processes import service as services
from tests.support.processes.oidc_issuer import CLIENT_ID, CLIENT_SECRET, OidcIssuer
from tests.support.processes.service import Service

CHAT = "/v1/chat/completions"
SIGN_IN = "/admin/v1/sign-in"
BODY = {"model": "sandbox", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 1}
DEEP = b"[" * 4_000
_ISSUER_ANSWERS_WITHIN_S = 15.0


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(header: bytes, payload: bytes = b"{}") -> str:
    return f"{encoded(header)}.{encoded(payload)}.{encoded(b'signature')}"


def tokens(id_token: str) -> dict[str, Any]:
    return {"id_token": id_token, "access_token": "a", "token_type": "Bearer"}


def large_key(bits: int) -> dict[str, Any]:
    return {"kty": "RSA", "n": encoded(secrets.token_bytes(bits // 8)), "e": encoded((2**63 + 1).to_bytes(8, "big"))}


def after(seconds: float, answer: tuple[int, Any]) -> tuple[int, Any]:
    time.sleep(seconds)
    return answer


# What the token endpoint, the keys and userinfo answer.
ANSWERS: dict[str, dict[str, Callable[[], tuple[int, Any]]]] = {
    "tokens nested deeply": {"/token": lambda: (200, DEEP)},
    "tokens larger than any": {"/token": lambda: (200, {**tokens("x" * 2_000_000)})},
    "a refusal that is a page": {"/token": lambda: (400, b"<script>alert(1)</script>")},
    "a refusal of megabytes": {"/token": lambda: (400, {"error": "e" * 300_000, "error_description": "\x1b[2J" * 9_000})},
    "a redirect of the code": {"/token": lambda: (302, "http://127.0.0.1:9/stolen")},
    "no token": {"/token": lambda: (200, tokens("not.a.token"))},
    "a header nested deeply": {"/token": lambda: (200, tokens(token(b'{"alg":"RS256","x":' + DEEP)))},
    "an algorithm that is a list": {"/token": lambda: (200, tokens(token(b'{"alg":[]}')))},
    "an algorithm that is none": {"/token": lambda: (200, tokens(token(b'{"alg":"none"}')))},
    "extensions that are a number": {"/token": lambda: (200, tokens(token(b'{"alg":"RS256","crit":5}')))},
    "a payload that is not encoded": {"/token": lambda: (200, tokens(token(b'{"alg":"RS256","b64":false,"crit":["b64"]}')))},
    "keys of many bits": {"/keys": lambda: (200, {"keys": [large_key(16_384)] * 60})},
    "a key of a million bits": {"/keys": lambda: (200, {"keys": [large_key(1_500_000)]})},
    "keys that are no keys": {"/keys": lambda: (200, b'{"keys": [{"kty": "EC", "crv": [], "x": 5}, {"kty": "RSA", "n": "", "e": ""}]}')},
    "keys nested deeply": {"/keys": lambda: (200, b'{"keys":' + DEEP)},
    "keys that are elsewhere": {"/keys": lambda: (302, "http://127.0.0.1:9/keys")},
}
# What is signed, and not true or not usable.
CLAIMS: dict[str, dict[str, Any]] = {
    "an expiry that is an object": {"exp": {}},
    "an expiry that is a list of numbers": {"exp": [1e300]},
    "a subject of many letters": {"sub": "s" * 100_000},
    "audiences without end": {"aud": [f"client {number}" for number in range(5_000)]},
    "a nonce that is an object": {"nonce": {"a": 1}},
}


def start(issuer: OidcIssuer) -> Service:
    port = services.free_port()
    return services.start(
        port=port,
        workers=1,
        public_url=f"http://127.0.0.1:{port}",
        oidc_issuer=issuer.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
    )


@pytest.fixture(scope="module")
def issuer() -> Generator[OidcIssuer]:
    running = OidcIssuer()
    yield running
    running.close()


@pytest.fixture(scope="module")
def signing_in(issuer: OidcIssuer) -> Generator[Service]:
    running = start(issuer)
    yield running
    services.stop(running)


@pytest.fixture
async def browser(signing_in: Service, issuer: OidcIssuer) -> AsyncGenerator[httpx2.AsyncClient]:
    issuer.answers, issuer.changed_claims = {}, {}
    issuer.person = {"sub": secrets.token_hex(8), "email": f"{secrets.token_hex(4)}@example.com"}
    # The key that signs is a new one, so that the gateway asks for the issuer's keys.
    issuer.rotate_key("ES256")
    async with signing_in.keyless_client() as client:
        yield client


async def complete(browser: httpx2.AsyncClient) -> httpx2.Response:
    """The gateway's response to a browser that comes back from the issuer."""
    begun = await browser.get(SIGN_IN)
    assert begun.status_code == 303, begun.text
    back = await browser.get(begun.headers["location"])
    assert back.status_code == 302, back.text
    return await browser.get(back.headers["location"])


def log_of(service: Service) -> str:
    return "".join(path.read_text(errors="replace") for path in service.home.rglob("*.log"))


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_odd_answer_is_an_error_that_says_so(browser: httpx2.AsyncClient, issuer: OidcIssuer, signing_in: Service, name: str):
    issuer.answers = ANSWERS[name]
    response = await complete(browser)
    assert response.status_code == 502 and len(response.content) < 2_000, response.text
    message = response.json()["error"]["message"]
    assert "The issuer" in message and message.isprintable() and "set-cookie" not in response.headers
    assert "Traceback" not in log_of(signing_in)


@pytest.mark.parametrize("name", CLAIMS)
async def test_an_odd_claim_is_an_error_that_says_so(browser: httpx2.AsyncClient, issuer: OidcIssuer, signing_in: Service, name: str):
    issuer.changed_claims = CLAIMS[name]
    response = await complete(browser)
    assert response.status_code == 502 and "ID token is not accepted" in response.json()["error"]["message"], response.text
    assert "Traceback" not in log_of(signing_in)


async def test_groups_without_end_do_not_prevent_signing_in(browser: httpx2.AsyncClient, issuer: OidcIssuer):
    issuer.changed_claims = {"groups": [*([None, 5, "g" * 5_000] * 12), *range(2_000), "readers"]}
    response = await complete(browser)
    assert response.status_code == 303, response.text


async def test_people_do_not_wait_one_after_the_other_for_an_issuer_that_hangs_and_callers_not_at_all(issuer: OidcIssuer):
    """Everyone who comes while the first one waits is told with it."""
    answer = issuer.answer("GET", "/realms/test/.well-known/openid-configuration", {}, {}, {})
    issuer.answers = {"/.well-known/openid-configuration": lambda: after(12.0, answer)}
    service = await asyncio.to_thread(start, issuer)
    try:
        async with service.client() as caller, service.keyless_client() as browsers:
            began = time.monotonic()
            people = [asyncio.create_task(browsers.get(SIGN_IN)) for _ in range(8)]
            while not all(person.done() for person in people):
                response = await caller.post(CHAT, json=BODY)
                assert response.status_code == 200, response.text
            assert {person.result().status_code for person in people} == {503}
            assert time.monotonic() - began < 2 * _ISSUER_ANSWERS_WITHIN_S
    finally:
        issuer.answers = {}
        await asyncio.to_thread(services.stop, service)


async def test_keys_without_end_take_no_time_of_callers(browser: httpx2.AsyncClient, issuer: OidcIssuer, signing_in: Service):
    modulus = encoded(secrets.token_bytes(47_000))
    answer = json.dumps({"keys": [{"kty": "RSA", "n": modulus, "e": "AQAB"}] * 8}).encode()

    async def longest_until(task: asyncio.Task[None]) -> float:
        """The longest of the calls of a team that go on until then."""
        times: list[float] = []
        async with signing_in.client() as caller:
            while not task.done():
                began = time.perf_counter()
                assert (await caller.post(CHAT, json=BODY)).status_code == 200
                times.append(time.perf_counter() - began)
        return max(times)

    async def try_to_sign_in() -> None:
        for _ in range(3):
            assert (await complete(browser)).status_code == 502

    rounds: list[tuple[float, float]] = []
    while not rounds or rounds[-1][1] > 3 * rounds[-1][0] + 0.05:
        assert len(rounds) < 5, rounds  # What else the machine does only ever adds.
        quiet = await longest_until(asyncio.create_task(asyncio.sleep(0.5)))
        issuer.rotate_key("ES256")
        issuer.answers = {"/keys": lambda: (200, answer)}
        rounds.append((quiet, await longest_until(asyncio.create_task(try_to_sign_in()))))
