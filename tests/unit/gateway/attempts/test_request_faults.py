"""An endpoint is taken out of rotation by its own failures, not by those that one caller's requests cause everywhere."""

import asyncio
import time
from typing import Any, cast

import httpx2
import msgspec
import pytest

from app.domain.callers import Caller
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Plan
from app.gateway.attempts.attempts import Attempts
from app.gateway.attempts.reasoning_state import ProviderSources
from app.gateway.attempts.target_queues import TargetQueues
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.limits.limits import Limits
from app.gateway.limits.rule_matcher import RuleMatcher
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.state.context import RequestContext
from app.gateway.state.episode_id import Episode
from app.gateway.state.stages import Admitted, Attempted, Authenticated, ExchangeRecord, Planned
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from providers.canonical.errors import Overloaded, UpstreamError
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS
from providers.dialect import ResponseMeta
from providers.transport.loop_turns import LoopTurns
from tests.support.processes.wait_until import wait_until
from tests.support.request_translation import make_source
from tests.unit.gateway.attempts.test_attempts import REQUEST_BODY, RESPONSE_BODY, BufferedResponse, ConnectedCaller

Answer = tuple[int, Any, dict[str, str]]
ANSWER: Answer = (200, RESPONSE_BODY, {})
FAILURE: Answer = (500, {"error": {"message": "CUDA error"}}, {})
MAX_FAILURES = 3


class FakeHosts(httpx2.AsyncBaseTransport):
    """Engines by their names; one without an answer gives none. `called`: which were, in order."""

    def __init__(self, **answers: Answer | None) -> None:
        self.answers = answers
        self.called: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.called.append(request.url.host)
        answer = self.answers[request.url.host]
        if answer is None:
            await asyncio.Event().wait()
        status, body, headers = answer or ANSWER
        raw = msgspec.json.encode(body)
        fields = {"content-type": "application/json", "content-length": str(len(raw)), **headers}
        return httpx2.Response(status, headers=fields, stream=BufferedResponse(raw))


class Gateway:
    """Attempts at a model with an endpoint at each host."""

    def __init__(self, hosts: FakeHosts) -> None:
        settings = Settings(breaker_failures=MAX_FAILURES, retries=0)
        addresses = tuple(f"http://{name}/v1" for name in hosts.answers)
        self.target = Target("pool", "engine-model", endpoints=addresses)
        self.snapshot = build_snapshot(1, {"pool": ProviderConfig("vllm", None)}, {"m": ModelConfig((self.target,))})
        self.fleet = Fleet(settings, hosts)
        self.fleet.apply_snapshot(self.snapshot)
        self.large_requests = LargeRequests(settings, LoopTurns())
        limits = cast(Limits, None)
        self.attempts = Attempts(
            *(settings, self.fleet, limits, cast(ConstraintChecks, None), hosts, self.large_requests, TargetQueues(settings, limits))
        )

    def endpoint(self, host: str) -> Endpoint:
        return next(each for each in self.fleet.endpoints if each.base_url == f"http://{host}/v1")

    def opened(self) -> set[str]:
        now = time.monotonic()
        return {httpx2.URL(each.base_url).host for each in self.fleet.endpoints if each.breaker.is_open(now)}

    async def send(self, team: str) -> int:
        """The status that a caller of the team gets."""
        dialect, context = DIALECTS["openai_chat"], RequestContext("openai_chat", ConnectedCaller())
        request = dialect.parse_request(REQUEST_BODY)
        source = make_source(request, REQUEST_BODY, dialect, cast(MediaFetcher, None), lambda field: False)
        admitted = Admitted(Authenticated(Caller(team, team, team, "full")), request, Episode("e", "minted"), {})
        plan = Plan("m", "m", (self.target,), ("m",), self.snapshot)
        planned = context.stage = Planned(
            admitted, plan, None, cast(ExchangeRecord, None), 0, self.fleet.table, cast(RuleMatcher, None), shadow=None
        )
        try:
            attempted = Attempted.begin(planned, context.progress)
            await self.attempts.serve(ProviderSources(source), attempted, ResponseMeta("i", "e", "m", 1, True, Body()), context)
        except UpstreamError as error:
            return error.status
        finally:
            await context.release()
        return 200


async def test_requests_of_one_caller_that_fail_everywhere_open_no_breaker():
    gateway = Gateway(FakeHosts(a=FAILURE, b=FAILURE))
    for _ in range(3 * MAX_FAILURES):
        assert await gateway.send("hostile") == 500
    assert gateway.opened() == set()


async def test_requests_whose_caller_leaves_before_another_engine_answers_open_no_breaker():
    """Nobody knows what the other one would have made of them."""
    hosts = FakeHosts(a=FAILURE, b=None)
    gateway = Gateway(hosts)
    for _ in range(3 * MAX_FAILURES):
        hosts.called.clear()
        sending = asyncio.create_task(gateway.send("hostile"))
        await wait_until(lambda: "b" in hosts.called)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert gateway.opened() == set()


async def test_engines_that_fail_the_requests_of_several_teams_are_taken_out():
    gateway = Gateway(FakeHosts(a=FAILURE, b=FAILURE))
    for _ in range(MAX_FAILURES):
        for team in ("blue", "red"):
            await gateway.send(team)
    assert gateway.opened() == {"a", "b"}


async def test_engine_that_alone_fails_a_request_is_taken_out():
    gateway = Gateway(FakeHosts(a=FAILURE, b=ANSWER))
    for _ in range(5 * MAX_FAILURES):
        assert await gateway.send("blue") == 200
    assert gateway.opened() == {"a"}


async def test_only_engine_of_a_model_is_taken_out():
    gateway = Gateway(FakeHosts(a=FAILURE))
    for _ in range(MAX_FAILURES):
        await gateway.send("blue")
    assert gateway.opened() == {"a"}


async def test_busy_endpoint_gets_no_request_before_its_time():
    hosts = FakeHosts(a=(503, {"error": {"message": "queue full"}}, {"retry-after": "5"}), b=ANSWER)
    gateway = Gateway(hosts)
    for _ in range(40):
        assert await gateway.send("blue") == 200
    assert hosts.called.count("a") == 1
    assert gateway.endpoint("a").in_cooldown(time.monotonic(), "engine-model", "blue")
    assert not gateway.endpoint("a").in_cooldown(time.monotonic(), "other-model", "blue")
    assert not gateway.endpoint("a").in_cooldown(time.monotonic() + 5.1, "engine-model", "blue")


async def test_endpoint_that_is_busy_for_a_request_of_one_team_serves_others():
    """It may be that very request which it could not take."""
    busy: Answer = (503, {"error": {"message": "no room for this prompt"}}, {"retry-after": "20"})
    hosts = FakeHosts(a=busy)
    gateway = Gateway(hosts)
    assert [await gateway.send("hostile") for _ in range(10)] == [503] * 10
    hosts.answers["a"] = ANSWER
    assert [await gateway.send("blue"), await gateway.send("red"), await gateway.send("hostile")] == [200, 200, 503]
    assert hosts.called == ["a"] * 3


async def test_endpoint_that_is_busy_for_requests_of_two_teams_gets_none_of_anybody():
    hosts = FakeHosts(a=(503, {"error": {"message": "queue full"}}, {"retry-after": "20"}), b=ANSWER)
    gateway = Gateway(hosts)
    for team in ("blue", "red", "green", "blue", "red", "yellow") * 10:
        assert await gateway.send(team) == 200
    assert hosts.called.count("a") == 2
    assert gateway.endpoint("a").in_cooldown(time.monotonic(), "engine-model")


async def test_only_endpoint_gets_none_either_while_it_is_busy_and_callers_learn_how_long():
    hosts = FakeHosts(a=(503, {"error": {"message": "queue full"}}, {"retry-after": "7"}))
    gateway = Gateway(hosts)
    assert [await gateway.send("blue") for _ in range(40)] == [503] * 40
    assert hosts.called == ["a"]
    busy = gateway.endpoint("a").busy_times.refuse("engine-model", "pool", "blue")
    assert isinstance(busy, Overloaded) and busy.retry_after_s is not None and 6 < busy.retry_after_s <= 7


@pytest.mark.parametrize(("retry_after", "longest_s"), [("3600", 30.0), ("2", 2.0)])
async def test_no_endpoint_is_busy_for_longer_than_the_bound(retry_after: str, longest_s: float):
    gateway = Gateway(FakeHosts(a=(503, {}, {"retry-after": retry_after}), b=ANSWER))
    while not gateway.endpoint("a").busy_times:
        await gateway.send("blue")
    assert longest_s - 1 < gateway.endpoint("a").busy_times.left_s("engine-model", time.monotonic(), "blue") <= longest_s


@pytest.mark.parametrize(("status", "headers"), [(503, {}), (429, {"retry-after": "5"})])
async def test_overload_without_a_time_and_the_limit_of_a_credential_are_no_busy_endpoint(status: int, headers: dict[str, str]):
    hosts = FakeHosts(a=(status, {}, headers))
    gateway = Gateway(hosts)
    for _ in range(3):
        await gateway.send("blue")
    assert hosts.called == ["a"] * 3
