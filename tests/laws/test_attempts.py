"""Laws of attempts: which credential serves, what the caller is told when none does, and what is counted of what never was asked."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from app.domain import ModelConfig, Plan, ProviderConfig, Target
from app.gateway.attempts import Attempts
from app.gateway.context import RequestContext
from app.gateway.credentials.client import CredentialClient, RequestTemplateKey
from app.gateway.fleet.fleet import Endpoint, Fleet
from app.gateway.limits.limits import Limits
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.settings import Settings
from app.store.snapshots import build_snapshot
from app.store.vault import Vault
from providers.adapters.provider import Provider
from providers.canonical.errors import CredentialRefused, Overloaded, TokenUnavailable
from providers.canonical.raw_json import Body
from providers.credentials import CredentialError, Header, Signer, UnsignedRequest
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.catalogue import DIALECTS
from providers.transport.response_stream import ResponseStream

RAW = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]}
VAULT = Vault(["a key for the laws of attempts, random"])


class Whole(ResponseStream):
    """An answer that has come whole."""

    def __init__(self, body: bytes) -> None:
        self.response = cast(Any, SimpleNamespace(complete=True, body_begun=True))
        self._body = body

    async def read_all(self, limit_bytes: int) -> bytes:
        return self._body

    async def aclose(self) -> None:
        pass


class Line:
    disconnected = False


class Host(httpx.AsyncBaseTransport):
    """Answers by the credential with which it is asked; `came` are those, in turn."""

    def __init__(self, **answers: tuple[int, Any]) -> None:
        self.came: list[str] = []
        self._answers = answers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        who = request.headers["authorization"].removeprefix("Bearer ")
        self.came.append(who)
        status, body = self._answers[who]
        return httpx.Response(status, headers={"content-type": "application/json"}, stream=Whole(json.dumps(body).encode()))


class Signs:
    """A signer. See Signer."""

    def __init__(self, sign: Callable[[], Awaitable[list[Header]]]) -> None:
        self._sign = sign

    async def sign(self, request: UnsignedRequest) -> list[Header]:
        return await self._sign()

    def invalidate(self) -> bool:
        return True


class Road:
    """One endpoint with these credentials, which are their own names, and an inference on its way there."""

    def __init__(self, host: Host, *names: str, signed: dict[str, Callable[[], Awaitable[list[Header]]]] | None = None, **settings: Any):
        sealed = {name: VAULT.encrypt(name, name) for name in names}
        models = {"m": ModelConfig((Target("host", "theirs"),))}
        config = ProviderConfig("vllm", "http://host/v1", tuple(f"store:{name}" for name in names))
        directory = build_snapshot(1, {"host": config}, models, credentials=sealed)
        chosen = Settings(**settings)
        self.fleet = Fleet(chosen, host, VAULT)
        self.fleet.apply_snapshot(directory)
        (self.endpoint,) = self.fleet.endpoints
        self.endpoint.provider = _signing(self.endpoint, signed or {})
        self.plan = Plan("m", "m", (Target("host", "theirs"),), ("m",), directory)
        self.attempts = Attempts(chosen, self.fleet, cast(Limits, None), cast(ConstraintChecks, None), host)
        self.underway = RequestContext("openai_chat", Line())

    @property
    def credentials(self) -> list[CredentialClient]:
        return self.endpoint.credential_pool.gateway_clients

    async def ask(self) -> OutboundResponse:
        dialect = DIALECTS["openai_chat"]
        asked = RequestTranslator(dialect.parse_request(RAW), RAW, dialect, cast(MediaFetcher, None), lambda field: False)
        answer = await self.attempts.serve(asked, self.plan, ResponseMeta("i", "e", "m", 1, True, Body()), self.underway)
        await self.underway.release()
        assert isinstance(answer, OutboundResponse)
        return answer


def _signing(endpoint: Endpoint, signed: dict[str, Callable[[], Awaitable[list[Header]]]]) -> Provider:
    class Signed(type(endpoint.provider)):
        def signer(self, credential: str | None, fetch: object) -> Signer | None:
            return Signs(signed[credential]) if credential in signed else None

        def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
            return [] if credential in signed else super().headers(credential, dialect)

    return Signed("host", {}, base_url="http://host/v1")


async def unreachable() -> list[Header]:
    raise httpx.ConnectTimeout("nobody there")


async def for_ever() -> list[Header]:
    await asyncio.Event().wait()
    return []


@pytest.mark.parametrize("fetching", [unreachable, for_ever])
async def test_a_credential_whose_token_cannot_be_had_gives_way_to_the_next(fetching: Callable[[], Awaitable[list[Header]]]):
    host = Host(spare=(200, ANSWER))
    road = Road(host, "first", "spare", signed={"first": fetching}, total_timeout_s=0.05)
    await road.ask()
    assert host.came == ["spare"] and [each.error for each in road.underway.attempts] == ["TokenUnavailable", None]
    assert road.endpoint.in_flight == 0 and road.endpoint.consecutive_failures == 0
    first, spare = road.credentials
    assert (
        first.cooldown.in_cooldown(time.monotonic(), "theirs")
        and not spare.cooldown.in_cooldown(time.monotonic(), "theirs")
        and not first.cooldown.refused
    )


async def test_nor_is_it_told_as_a_host_that_cannot_be_reached():
    road = Road(Host(), "first", signed={"first": unreachable}, breaker_failures=1)
    with pytest.raises(TokenUnavailable, match="No token for the gateway's credential at host"):
        await road.ask()
    assert road.endpoint.open_until == 0 and road.endpoint.in_flight == 0


async def test_who_hangs_up_before_the_host_was_asked_pays_nothing():
    road = Road(Host(), "first", signed={"first": for_ever})
    asking = asyncio.create_task(road.ask())
    await asyncio.sleep(0.01)
    assert road.endpoint.in_flight == 1
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await road.underway.release()
    assert road.endpoint.in_flight == 0
    assert [each.error for each in road.underway.attempts] == ["Cut"] and road.underway.served is None


async def test_of_several_that_fail_the_caller_is_told_what_may_pass_soonest():
    error = {"error": {"message": "no", "code": "nope"}}
    with pytest.raises(Overloaded) as told:
        await Road(Host(bad=(401, error), busy=(429, error), worse=(401, error)), "bad", "busy", "worse").ask()
    assert told.value.status == 429 and told.value.details == {"provider": "host", "provider_status": 429, "provider_code": "nope"}
    with pytest.raises(CredentialRefused):
        await Road(Host(bad=(401, error), worse=(403, error)), "bad", "worse").ask()


async def test_however_many_credentials_there_are_so_many_are_tried_and_no_more():
    names = [f"c{number}" for number in range(20)]
    host = Host(**{name: (429, {"error": "later"}) for name in names})
    road = Road(host, *names)
    with pytest.raises(Overloaded):
        await road.ask()
    assert host.came == names[:8] and len(road.underway.attempts) == 8 and road.endpoint.in_flight == 0


async def test_a_session_token_is_hidden_however_many_requests_went_with_it():
    count = iter(range(100))

    async def sign() -> list[Header]:
        signature = b"AWS4-HMAC-SHA256 Credential=AK/x, SignedHeaders=host, Signature=%064x" % next(count)
        return [(b"x-amz-security-token", b"plain words of a session"), (b"authorization", signature)]

    road = Road(Host(), "first", signed={"first": sign})
    (identity,) = road.credentials
    for _ in range(9):
        await identity.build_request(road.endpoint.provider, "http://host/v1", RequestTemplateKey("openai_chat"), b"{}", {})
        assert "session" not in identity.secret_mask.mask("told: session")


async def test_a_credential_that_is_gone_meanwhile_is_no_fault_of_ours():
    road = Road(Host(first=(200, ANSWER)), "first")
    await road.ask()
    road.fleet.apply_snapshot(build_snapshot(2, road.plan.snapshot.providers, road.plan.snapshot.models))
    road.underway = RequestContext("openai_chat", Line())
    with pytest.raises(CredentialRefused, match="No credential is stored"):
        await road.ask()
    with pytest.raises(CredentialError):
        road.credentials[0].headers(road.endpoint.provider)
