"""The endpoint of a target that gets a request is the one where the beginning of its prompt is cached, until it is too busy."""

import json
import time
from typing import Any

import pytest

from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.endpoint_choice import EndpointChoice
from app.gateway.fleet.endpoint_load import RequestLoad
from app.gateway.fleet.fleet import Fleet
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from bench.routing_simulation import POLICIES, make_trace, simulate
from providers.catalogue import DIALECTS
from providers.dialect import InboundRequest
from providers.transport.transport import Transport

SYSTEM = "You answer in one word, and never explain what you mean. " * 40
ADDRESSES = ("http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3")


def a_request(*contents: str, model: str = "m") -> InboundRequest:
    roles = ("system", "user", "assistant", "user", "assistant", "user")
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
    return DIALECTS["openai_chat"].parse_request(json.dumps({"model": model, "messages": messages}).encode())


class Pool:
    """Three endpoints, and what is sent to them."""

    def __init__(self, **target: Any) -> None:
        self.target = Target("engine", "m", endpoints=ADDRESSES, **target)
        self.fleet = Fleet(Settings(), Transport(connections_per_origin=1))
        self.fleet.apply_snapshot(build_snapshot(1, {"engine": ProviderConfig("vllm")}, {"m": ModelConfig((self.target,))}))
        self.endpoints = self.fleet.table.endpoints_of(self.target)

    def choose(self, request: InboundRequest, team_id: str = "team", session: str | None = None) -> EndpointChoice:
        return self.fleet.table.choose_endpoints(self.target, request, team_id, session)

    def send(self, *contents: str, team_id: str = "team", session: str | None = None) -> tuple[int, RequestLoad]:
        """The number of the endpoint, and the load that the request is there until it ends."""
        choice = self.choose(a_request(*contents), team_id, session)
        endpoint = next(iter(choice))
        load = endpoint.load.begin_request(choice.begin(endpoint), time.monotonic(), awaits_first_block=True)
        return self.endpoints.index(endpoint), load

    def serve(self, *contents: str, team_id: str = "team", session: str | None = None) -> int:
        number, load = self.send(*contents, team_id=team_id, session=session)
        load.mark_answered(time.monotonic())
        load.end()
        return number


def test_endpoint_that_has_come_back_gets_few_requests_until_it_has_answered_some():
    pool = Pool()
    pool.endpoints[0].load.cool_down()
    waiting = [pool.send(f"{number} " * 200) for number in range(40)]
    numbers = [number for number, _ in waiting]
    assert 0 < numbers.count(0) < 8 and numbers.count(1) > 13
    for _, load in waiting:
        load.end()
    for number in range(3):  # it has answered fewer than eight, so these still are
        assert pool.endpoints[0].load.cold_requests == 8 - numbers.count(0) - number
        pool.endpoints[0].load.begin_request(10, time.monotonic(), awaits_first_block=False).end()
    while pool.endpoints[0].load.cold_requests:
        pool.endpoints[0].load.begin_request(10, time.monotonic(), awaits_first_block=False).end()
    numbers = [pool.send(f"again {number} " * 200)[0] for number in range(60)]
    assert 15 < numbers.count(0) < 25


def test_prompts_with_nothing_in_common_take_turns():
    pool = Pool()
    assert [pool.serve(f"{number} " * 200) for number in range(6)] == [0, 1, 2, 0, 1, 2]


def test_turns_of_a_chat_stay_where_the_first_was():
    pool = Pool()
    first = pool.serve("One. " * 100, "What is a cat?")
    others = [pool.serve(f"{number} " * 200) for number in range(4)]
    second = pool.serve("One. " * 100, "What is a cat?", "An animal." * 20, "And a dog?")
    assert second == first and first not in others[:2]


def test_requests_with_one_system_prompt_spread_once_their_endpoint_is_busier_than_that_saves():
    pool = Pool()
    holder = pool.serve(SYSTEM, "The first question?")
    numbers = [pool.send(SYSTEM, f"Question {number}?")[0] for number in range(40)]
    assert numbers[0] == numbers[1] == holder
    assert set(numbers) == {0, 1, 2}


def test_slow_requests_with_one_long_prefix_go_to_another_endpoint_before_theirs_may_be_full():
    pool = Pool()
    long_prefix = SYSTEM * 4
    pool.serve(long_prefix, "The first.")
    sent = [pool.send(long_prefix, f"{number}?") for number in range(24)]
    for _, load in sent:
        load.mark_answered(time.monotonic())  # each has begun to answer, and none ends
    numbers = [number for number, _ in sent]
    assert max(map(numbers.count, numbers)) <= 16


def test_callers_that_tokenize_themselves_stay_where_their_prefix_is():
    pool, beginning = Pool(), list(range(1000, 2000))

    def choose(ids: list[int]) -> int:
        body = {"model": "m", "token_ids": ids, "sampling_params": {"max_tokens": 5}}
        choice = pool.choose(DIALECTS["vllm_generate"].parse_request(json.dumps(body).encode()))
        endpoint = next(iter(choice))
        choice.begin(endpoint)
        endpoint.load.begin_request(5, time.monotonic(), awaits_first_block=False).end()
        return pool.endpoints.index(endpoint)

    first = choose(beginning)
    assert [choose([*beginning, number]) for number in range(5)] == [first] * 5
    assert choose(list(range(5000, 6000))) != first


def test_endpoint_whose_streams_stand_still_gets_no_more_chats(monkeypatch: pytest.MonkeyPatch):
    pool = Pool()
    stuck, _ = pool.send(SYSTEM, "One?")
    later = time.monotonic() + 5
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert pool.serve(SYSTEM, "Two?") != stuck


def test_what_a_team_sent_tells_others_nothing():
    pool = Pool()
    assert pool.serve(SYSTEM, "One?", team_id="one") == 0
    assert pool.serve(SYSTEM, "One?", team_id="two") == 1


def test_other_models_of_an_endpoint_share_no_cache():
    pool = Pool()
    pool.serve(SYSTEM, "One?")
    adapted = Target("engine", "m", endpoints=ADDRESSES, lora="adapter")
    choice = pool.fleet.table.choose_endpoints(adapted, a_request(SYSTEM, "One?"), "team")
    assert all(candidate.cached_tokens == 0 for candidate in choice.explain(time.monotonic()))


def test_session_keeps_requests_together_that_have_no_beginning_in_common():
    pool = Pool()
    numbers = {pool.serve(f"{number} " * 200, session="s") for number in range(5)}
    assert len(numbers) == 1
    assert pool.serve("other " * 200, session="t") not in numbers


def test_failed_endpoint_is_followed_by_the_others_and_tried_again_on_demand():
    pool = Pool()
    choice = pool.choose(a_request("Hi"))
    seen: list[Endpoint] = []
    for endpoint in choice:
        seen.append(endpoint)
        if len(seen) == 1:
            choice.try_again(endpoint)
    assert seen == [pool.endpoints[0], *pool.endpoints]


def test_endpoints_in_cooldown_come_last_the_soonest_back_first():
    pool = Pool()
    pool.endpoints[0].breaker.open_for(60)
    pool.endpoints[1].breaker.open_for(30)
    assert list(pool.choose(a_request("Hi"))) == [pool.endpoints[2], pool.endpoints[1], pool.endpoints[0]]


def test_endpoints_without_the_adapter_come_last():
    pool = Pool(lora="adapter")
    pool.endpoints[0].provider.lora_adapters = {}
    pool.endpoints[1].provider.lora_adapters = {"adapter": None}
    assert list(pool.choose(a_request("Hi")))[-1] is pool.endpoints[0]


def test_heavier_endpoint_gets_more():
    pool = Pool(endpoint_weights={ADDRESSES[1]: 3.0})
    numbers = [pool.send(f"{number} " * 200)[0] for number in range(50)]
    assert 27 <= numbers.count(1) <= 33  # three fifths


def test_explanation_lists_every_endpoint_the_best_first():
    pool = Pool()
    pool.serve(SYSTEM, "One?")
    pool.endpoints[1].breaker.open_for(60)
    best, idle, broken = pool.choose(a_request(SYSTEM, "Two?")).explain(time.monotonic())
    assert (best.endpoint, idle.endpoint, broken.endpoint) == (ADDRESSES[0], ADDRESSES[2], ADDRESSES[1])
    assert best.cached_tokens > 400 and idle.cached_tokens == 0 and best.score < idle.score
    assert broken.unavailable == "breaker open" and best.unavailable is None


def test_load_is_what_it_was_once_all_requests_have_ended():
    pool = Pool()
    loads = [pool.send(SYSTEM, f"{number}?")[1] for number in range(20)]
    for number, load in enumerate(loads):
        if number % 2:
            load.mark_answered(time.monotonic())
        load.end()
        load.end()
    assert {(each.load.in_flight, each.load.queued_tokens, each.load.waiting) for each in pool.endpoints} == {(0, 0, 0)}


@pytest.mark.parametrize("requests_per_s", [10, 28])
def test_first_tokens_come_sooner_than_by_simpler_choices(requests_per_s: int):
    trace = make_trace(1, requests_per_s)
    outcomes = {name: simulate(policy(), trace) for name, policy in POLICIES.items()}
    ours = outcomes.pop("narthex")
    assert ours.p90_s < 0.9 * min(outcome.p90_s for outcome in outcomes.values())
    assert ours.most_loaded < 2
