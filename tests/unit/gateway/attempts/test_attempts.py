"""Attempts: which credential is used, which error the caller gets when none works, and what is recorded of calls that were not made."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import httpx2
import pytest
from msgspec.structs import replace

from app.domain.callers import Caller
from app.domain.exchange import Attempt, ShadowRecord
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Plan
from app.gateway.attempts.attempts import Attempts
from app.gateway.attempts.reasoning_state import ProviderSources
from app.gateway.attempts.target_queues import TargetQueues
from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.request_template import RequestTemplateKey
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.limits.limits import Limits
from app.gateway.limits.rule_matcher import RuleMatcher
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.state.context import RequestContext
from app.gateway.state.episode_id import Episode
from app.gateway.state.stages import Admitted, Attempted, Authenticated, ExchangeRecord, Planned
from app.gateway.structured_output import constraint_checks
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from app.store.postgres.vault import Vault
from providers import structured_output
from providers.adapters.provider import Provider
from providers.canonical.errors import ConstraintUnchecked, CredentialRefused, Overloaded, TokenUnavailable, UpstreamError
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS
from providers.credentials import CredentialError, Header, Signer, UnsignedRequest
from providers.dialect import OutboundResponse, ResponseMeta
from providers.transport.http1_response import ResponseReader
from providers.transport.loop_turns import LoopTurns
from providers.transport.response_stream import ResponseStream
from tests.support.request_translation import make_source

REQUEST_BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
RESPONSE_BODY = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]}
VAULT = Vault(["a key for the tests of attempts, random"])


class BufferedResponse(ResponseStream):
    """A response that has arrived completely."""

    def __init__(self, body: bytes) -> None:
        self.response = ResponseReader()
        self.response.feed(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        self._body = body

    async def read_all(self, limit_bytes: int) -> bytes:
        return self._body

    async def aclose(self) -> None:
        pass


class ConnectedCaller:
    disconnected = False


class FakeHost(httpx2.AsyncBaseTransport):
    """Responds by the credential of a request. `credentials_used` holds them in order."""

    def __init__(self, **responses: tuple[int, Any]) -> None:
        self.credentials_used: list[str] = []
        self._responses = responses

    def respond(self, credential: str, status: int, body: Any) -> None:
        self._responses[credential] = status, body

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        credential = request.headers["authorization"].removeprefix("Bearer ")
        self.credentials_used.append(credential)
        status, body = self._responses[credential]
        return httpx2.Response(status, headers={"content-type": "application/json"}, stream=BufferedResponse(json.dumps(body).encode()))


class FakeSigner:
    """A signer whose headers come from a function."""

    def __init__(self, sign: Callable[[], Awaitable[list[Header]]]) -> None:
        self._sign = sign

    async def sign(self, request: UnsignedRequest) -> list[Header]:
        return await self._sign()

    def invalidate(self) -> bool:
        return True


class AttemptHarness:
    """An endpoint whose credentials are named like their secrets, and a request to it."""

    def __init__(
        self,
        host: FakeHost,
        *names: str,
        signers: dict[str, Callable[[], Awaitable[list[Header]]]] | None = None,
        checks: ConstraintChecks | None = None,
        **settings: Any,
    ):
        encrypted = {name: VAULT.encrypt(name, name) for name in names}
        models = {"m": ModelConfig((Target("host", "engine-model"),))}
        config = ProviderConfig("vllm", "http://host/v1", tuple(f"store:{name}" for name in names))
        snapshot = build_snapshot(1, {"host": config}, models, credentials=encrypted)
        app_settings = Settings(**settings)
        self.fleet = Fleet(app_settings, host, VAULT)
        self.fleet.apply_snapshot(snapshot)
        self.endpoint_table = self.fleet.table
        (self.endpoint,) = self.fleet.endpoints
        self.endpoint.provider = _provider_with_signers(self.endpoint, signers or {})
        self.plan = Plan("m", "m", (Target("host", "engine-model"),), ("m",), snapshot)
        self.large_requests = LargeRequests(app_settings, LoopTurns())
        limits = cast(Limits, None)
        self.attempts = Attempts(
            app_settings,
            self.fleet,
            limits,
            cast(ConstraintChecks, checks),
            host,
            self.large_requests,
            TargetQueues(app_settings, limits),
        )
        self.context = RequestContext("openai_chat", ConnectedCaller())
        self.shadow: ShadowRecord | None = None

    @property
    def recorded_attempts(self) -> list[Attempt]:
        return self.context.stage.attempts if isinstance(self.context.stage, Attempted) else []

    @property
    def has_served(self) -> bool:
        return isinstance(self.context.stage, Attempted) and self.context.stage.served is not None

    @property
    def credentials(self) -> list[CredentialClient]:
        return self.endpoint.credential_pool.gateway_clients

    async def send(self, body: bytes = REQUEST_BODY, **terms: Any) -> OutboundResponse:
        dialect = DIALECTS["openai_chat"]
        source = make_source(dialect.parse_request(body), body, dialect, cast(MediaFetcher, None), lambda field: False, **terms)
        admitted = Admitted(Authenticated(Caller("key", "team", "team", "full")), source.request, Episode("e", "minted"), {})
        planned = self.context.stage = Planned(
            admitted, self.plan, None, cast(ExchangeRecord, None), 0, self.endpoint_table, cast(RuleMatcher, None), shadow=self.shadow
        )
        attempted = Attempted.begin(planned, self.context.progress)
        response = await self.attempts.serve(ProviderSources(source), attempted, ResponseMeta("i", "e", "m", 1, True, Body()), self.context)
        await self.context.release()
        assert isinstance(response, OutboundResponse)
        return response


def _provider_with_signers(endpoint: Endpoint, signers: dict[str, Callable[[], Awaitable[list[Header]]]]) -> Provider:
    class SignedProvider(type(endpoint.provider)):
        def signer(self, credential: str | None, fetch: object) -> Signer | None:
            return FakeSigner(signers[credential]) if credential in signers else None

        def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
            return [] if credential in signers else super().headers(credential, dialect)

    return SignedProvider("host", {}, base_url="http://host/v1")


async def fail_to_connect() -> list[Header]:
    raise httpx2.ConnectTimeout("nobody there")


async def wait_forever() -> list[Header]:
    await asyncio.Event().wait()
    return []


@pytest.mark.parametrize("fetch_headers", [fail_to_connect, wait_forever])
async def test_credential_whose_token_is_unavailable_falls_back_to_the_next(fetch_headers: Callable[[], Awaitable[list[Header]]]):
    host = FakeHost(spare=(200, RESPONSE_BODY))
    harness = AttemptHarness(host, "first", "spare", signers={"first": fetch_headers}, total_timeout_s=1.0)
    await harness.send()
    assert host.credentials_used == ["spare"] and [each.error for each in harness.recorded_attempts] == ["TokenUnavailable", None]
    assert harness.endpoint.load.in_flight == 0 and harness.endpoint.breaker.consecutive_failures == 0
    first, spare = harness.credentials
    assert (
        first.cooldown.in_cooldown(time.monotonic(), "engine-model")
        and not spare.cooldown.in_cooldown(time.monotonic(), "engine-model")
        and not first.cooldown.refused
    )


async def test_unavailable_token_is_not_counted_as_an_unreachable_host():
    harness = AttemptHarness(FakeHost(), "first", signers={"first": fail_to_connect}, breaker_failures=1)
    with pytest.raises(TokenUnavailable, match="No token for the gateway's credential at host"):
        await harness.send()
    assert harness.endpoint.breaker.open_until == 0 and harness.endpoint.load.in_flight == 0


async def test_disconnect_before_the_host_was_called_is_recorded_as_cut_and_unserved():
    harness = AttemptHarness(FakeHost(), "first", signers={"first": wait_forever})
    sending = asyncio.create_task(harness.send())
    async with asyncio.timeout(30):
        while harness.endpoint.load.in_flight != 1:
            await asyncio.sleep(0.001)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await harness.context.release()
    assert harness.endpoint.load.in_flight == 0
    assert [each.error for each in harness.recorded_attempts] == ["Aborted"] and not harness.has_served


async def test_of_several_failures_the_caller_gets_the_most_retryable_one():
    error = {"error": {"message": "no", "code": "nope"}}
    with pytest.raises(Overloaded) as raised:
        await AttemptHarness(FakeHost(bad=(401, error), busy=(429, error), worse=(401, error)), "bad", "busy", "worse").send()
    assert raised.value.status == 429 and raised.value.details == {"provider": "host", "provider_status": 429, "provider_code": "nope"}
    with pytest.raises(CredentialRefused):
        await AttemptHarness(FakeHost(bad=(401, error), worse=(403, error)), "bad", "worse").send()


async def test_at_most_eight_credentials_are_tried():
    names = [f"c{number}" for number in range(20)]
    host = FakeHost(**{name: (429, {"error": "later"}) for name in names})
    harness = AttemptHarness(host, *names)
    with pytest.raises(Overloaded):
        await harness.send()
    assert host.credentials_used == names[:8] and len(harness.recorded_attempts) == 8 and harness.endpoint.load.in_flight == 0


SHADOW = ShadowRecord("m", "team", True)


@pytest.mark.parametrize("status", [401, 402, 429, 500])
async def test_failing_shadow_leaves_breaker_and_credentials_as_callers_have_left_them(status: int):
    error = {"error": {"message": "no"}}
    for shadow, is_noted in ((None, True), (SHADOW, False)):
        harness = AttemptHarness(FakeHost(first=(status, error)), "first", breaker_failures=1, retries=0)
        harness.shadow = shadow
        with pytest.raises(UpstreamError):
            await harness.send()
        (client,), now = harness.credentials, time.monotonic()
        is_open = harness.endpoint.breaker.open_until > 0
        assert (is_open or client.cooldown.in_cooldown(now, "engine-model")) is is_noted
        assert client.cooldown.refused is (is_noted and status == 401)
        assert harness.endpoint.load.in_flight == 0 and [each.status for each in harness.recorded_attempts] == [status]


async def test_shadow_neither_closes_a_breaker_nor_takes_the_request_that_a_half_open_one_lets_through():
    host = FakeHost(first=(500, {"error": {"message": "no"}}))
    harness = AttemptHarness(host, "first", breaker_failures=1, breaker_open_s=0.01, retries=0)
    with pytest.raises(UpstreamError):
        await harness.send()
    breaker, (client,) = harness.endpoint.breaker, harness.credentials
    opened_until = breaker.open_until
    while breaker.is_open(time.monotonic()):
        await asyncio.sleep(0.001)
    host.respond("first", 200, RESPONSE_BODY)
    client.cooldown.record_model_overload("engine-model", 60)
    harness.shadow = SHADOW
    await harness.send()
    assert (breaker.open_until, breaker.consecutive_failures) == (opened_until, 1)
    assert client.cooldown.in_cooldown(time.monotonic(), "engine-model")
    harness.shadow = None
    await harness.send()
    assert (breaker.open_until, breaker.consecutive_failures) == (0, 0)
    assert not client.cooldown.in_cooldown(time.monotonic(), "engine-model")


async def test_rate_limits_in_responses_to_shadows_divert_no_request_of_a_caller():
    for shadow, is_noted in ((None, True), (SHADOW, False)):
        harness = AttemptHarness(FakeHost(first=(200, RESPONSE_BODY)), "first")
        cast(Any, harness.endpoint.provider).reports_rate_limits = True
        harness.shadow = shadow
        await harness.send()
        assert bool(harness.credentials[0].cooldown.models) is is_noted


async def test_session_token_stays_masked_after_many_signed_requests():
    count = iter(range(100))

    async def sign() -> list[Header]:
        signature = b"AWS4-HMAC-SHA256 Credential=AK/x, SignedHeaders=host, Signature=%064x" % next(count)
        return [(b"x-amz-security-token", b"plain words of a session"), (b"authorization", signature)]

    harness = AttemptHarness(FakeHost(), "first", signers={"first": sign})
    (credential_client,) = harness.credentials
    for _ in range(9):
        await credential_client.build_request(harness.endpoint.provider, "http://host/v1", RequestTemplateKey("openai_chat"), b"{}", {})
        assert "session" not in credential_client.secret_mask.mask("leaked: session")


async def test_credential_removed_since_the_plan_is_refused_as_not_stored():
    harness = AttemptHarness(FakeHost(first=(200, RESPONSE_BODY)), "first")
    await harness.send()
    harness.fleet.apply_snapshot(build_snapshot(2, harness.plan.snapshot.providers, harness.plan.snapshot.models))
    harness.context = RequestContext("openai_chat", ConnectedCaller())
    with pytest.raises(CredentialRefused, match="cannot be used"):
        await harness.send()
    with pytest.raises(CredentialError):
        harness.credentials[0].headers(harness.endpoint.provider)


async def test_request_keeps_to_the_endpoints_by_which_it_was_planned():
    harness = AttemptHarness(FakeHost(first=(200, RESPONSE_BODY)), "first")
    credentials = harness.plan.snapshot.credentials
    harness.fleet.apply_snapshot(build_snapshot(2, {}, {}, credentials=credentials))
    assert not harness.fleet.endpoints
    await harness.send()
    assert harness.has_served


async def test_endpoint_that_left_the_configuration_sends_no_credential_that_was_removed_later():
    harness = AttemptHarness(FakeHost(first=(200, RESPONSE_BODY)), "first")
    await harness.send()
    harness.fleet.apply_snapshot(build_snapshot(2, {}, {}))
    harness.context = RequestContext("openai_chat", ConnectedCaller())
    with pytest.raises(CredentialRefused, match="cannot be used"):
        await harness.send()


async def test_credential_that_is_removed_after_several_other_changes_is_not_sent_either():
    harness = AttemptHarness(FakeHost(first=(200, RESPONSE_BODY)), "first")
    credentials, (provider, config) = harness.plan.snapshot.credentials, next(iter(harness.plan.snapshot.providers.items()))
    for version in (2, 3, 4):
        changed = {provider: replace(config, options={"version": f"0.3{version}.0"})}
        harness.fleet.apply_snapshot(build_snapshot(version, changed, harness.plan.snapshot.models, credentials=credentials))
    harness.fleet.apply_snapshot(build_snapshot(5, {}, {}))
    with pytest.raises(CredentialRefused, match="cannot be used"):
        await harness.send()


@pytest.mark.parametrize("refuses_unvalidated", [False, True])
async def test_unchecked_response_is_recorded_as_unvalidated_or_refused_and_charged(
    monkeypatch: pytest.MonkeyPatch, refuses_unvalidated: bool
):
    """The checking process cannot start."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(constraint_checks, "_RETRY_CHECK_S", 0.0)
    schema = {"type": "object", "minProperties": 1}  # which no grammar is known to enforce
    constraint = {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}
    body = json.dumps({**json.loads(REQUEST_BODY), **constraint}).encode()
    request = DIALECTS["openai_chat"].parse_request(body)
    read = structured_output.read_constraint("openai_chat", request.body)
    assert read is not None
    checks = ConstraintChecks(response_wait_s=60)
    harness = AttemptHarness(FakeHost(first=(200, RESPONSE_BODY)), "first", checks=checks)
    options = {"constraint": replace(read, uncovered_paths=frozenset({"response_format"})), "refuses_unvalidated": refuses_unvalidated}
    if refuses_unvalidated:
        with pytest.raises(ConstraintUnchecked):
            await harness.send(body, max_repairs=3, **options)
    else:
        await harness.send(body, **options)
    attempted = harness.context.stage
    assert isinstance(attempted, Attempted)
    assert len(attempted.attempts) == 1
    assert attempted.structured_output == (None if refuses_unvalidated else "unvalidated")
    assert len(attempted.discarded) == int(refuses_unvalidated)
    await checks.stop()
