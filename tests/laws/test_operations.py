"""Engines' operations are data: whatever is said, a call has what was said, or a fault that names it."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.domain import ModelConfig, ProviderConfig, Snapshot, Target
from app.gateway.fleet.fleet import Fleet
from app.gateway.operations import OperationResult, Operations
from app.settings import Settings
from providers.adapters.probing import ENGINE_PROBES, ProbeResult
from providers.canonical.errors import InvalidRequest, OperationNotSupported
from providers.operations.catalogue import ENGINE_OPERATIONS, OPERATION_NAMES, find_operation
from providers.operations.manual import operations_manual
from providers.operations.operation import ArgumentType, Operation, build_call
from tests.laws.chats import bounded

ALL = [(engine, name) for engine, offer in ENGINE_OPERATIONS.items() for name in offer.operations]
OF_KIND: dict[ArgumentType, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=20).filter(lambda text: "\x00" not in text),
    "integer": st.integers(-(2**53), 2**53),
    "number": st.floats(0, 100, allow_nan=False),
    "boolean": st.booleans(),
    "object": st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2),
    "array": st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    "any": st.integers() | st.text(max_size=4),
}


def test_every_engine_that_can_be_found_has_an_offer():
    assert set(ENGINE_OPERATIONS) == set(ENGINE_PROBES) - {"auto"}


def test_no_operation_is_both_offered_and_not():
    for offer in ENGINE_OPERATIONS.values():
        assert not offer.operations.keys() & offer.unavailable.keys()


@bounded
@given(st.sampled_from(ALL), st.data())
def test_a_call_holds_what_was_said(one: tuple[str, str], data: st.DataObject):
    engine, name = one
    operation = find_operation(engine, name)
    given_ = {
        key: data.draw(OF_KIND[argument.type_name])
        for key, argument in operation.arguments.items()
        if argument.required or data.draw(st.booleans())
    }
    if operation.exactly_one_of:
        assume(sum(bool(given_.get(key)) or type(given_.get(key)) is int for key in operation.exactly_one_of) == 1)
        given_ = {key: value for key, value in given_.items() if value or type(value) is int or key not in operation.exactly_one_of}
    sent = build_call(name, operation, given_, "the-model")
    given_ = {key: value for key, value in given_.items() if operation.arguments[key].location != "nowhere"}
    in_query = {key for key, argument in operation.arguments.items() if argument.location == "query"} & given_.keys()
    assert len(sent.paths) == len(operation.paths) and sent.method == operation.method
    for path, plain in zip(sent.paths, operation.paths, strict=True):
        assert urlsplit(path).path == plain
        assert {key for key, _ in parse_qsl(urlsplit(path).query, keep_blank_values=True)} == in_query
    if operation.method == "POST":
        body = json.loads(sent.body)
        assert {key: value for key, value in body.items() if key in given_} == {key: given_[key] for key in given_.keys() - in_query}
        assert body.keys() - given_.keys() <= {*operation.fixed_body, operation.model_field}
    else:
        assert sent.body == b""


@bounded
@given(st.sampled_from([(engine, name) for engine, name in ALL if not find_operation(engine, name).accepts_any_field]), st.text(min_size=1))
def test_an_argument_that_the_engine_does_not_have_is_named(one: tuple[str, str], key: str):
    operation = find_operation(*one)
    some: dict[ArgumentType, Any] = {"object": {}, "array": [], "integer": 1}
    needed = {name: some.get(argument.type_name, "x") for name, argument in operation.arguments.items() if argument.required}
    if key not in operation.arguments:
        with pytest.raises(InvalidRequest, match="no argument"):
            build_call(one[1], operation, {**needed, key: 1}, "m")


@pytest.mark.parametrize("engine", sorted(engine for engine, name in ALL if name == "generate"))
def test_a_stream_which_would_come_as_one_text_is_refused_by_name(engine: str):
    generate, needed = find_operation(engine, "generate"), {"inputs": "x"} if engine == "tgi" else {}
    with pytest.raises(InvalidRequest) as refused:
        build_call("generate", generate, {**needed, "stream": True}, "m")
    assert refused.value.param == "stream"
    if generate.accepts_any_field:
        assert json.loads(build_call("generate", generate, {"stream": False}, "m").body)["stream"] is False


@pytest.mark.parametrize(
    "said", [{}, {"request_ids": []}, {"request_ids": None}, {"abort_all": False}, {"request_ids": ["a"], "abort_all": True}], ids=str
)
def test_vllm_is_told_to_abort_all_only_where_just_that_is_asked_for(said: dict[str, Any]):
    with pytest.raises(InvalidRequest, match="request_ids, abort_all"):
        build_call("abort", find_operation("vllm", "abort"), said, "m")


def test_what_vllm_is_to_abort_is_all_or_what_is_named():
    abort = find_operation("vllm", "abort")
    assert json.loads(build_call("abort", abort, {"request_ids": ["a"], "abort_all": False}, "m").body) == {"request_ids": ["a"]}
    assert json.loads(build_call("abort", abort, {"request_ids": [], "abort_all": True}, "m").body) == {}


@pytest.mark.parametrize(("engine", "one"), [("sglang", "rid"), ("lmdeploy", "session_id")])
def test_who_does_not_say_what_to_abort_aborts_nothing(engine: str, one: str):
    """SGLang stops all requests whose id begins with the `rid`, so that an empty one is all of them."""
    abort = find_operation(engine, "abort")
    for said in ({}, {one: None}, {"abort_all": False}, {"abort_message": "no"}):
        with pytest.raises(InvalidRequest, match=f"{one}, abort_all"):
            build_call("abort", abort, said, "m")
    assert json.loads(build_call("abort", find_operation("lmdeploy", "abort"), {"session_id": 0}, "m").body) == {"session_id": 0}


@pytest.mark.parametrize("tags", [[{"a": 1}], [None], [["weights"]]], ids=str)
def test_what_is_no_word_is_not_put_into_a_query(tags: list[Any]):
    with pytest.raises(InvalidRequest, match="words") as refused:
        build_call("wake", find_operation("vllm", "wake"), {"tags": tags}, "m")
    assert refused.value.param == "tags"


class Gpu(NamedTuple):
    """An engine that has what it was told; what each call to it was; and whoever tells it. `huge`: what it answers, if it is there."""

    huge: list[bytes]
    asked: list[tuple[str, str, Any]]
    fleet: Fleet
    tell: Callable[..., Awaitable[list[OperationResult]]]


def gpu(owner: str, *targets: Target) -> Gpu:
    huge: list[bytes] = []
    cards: list[dict[str, Any]] = [{"id": "base", "owned_by": owner, "max_model_len": 99}]
    asked: list[tuple[str, str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or b"null")
        asked.append((request.method, request.url.path, body))
        if request.url.path.endswith("load_lora_adapter"):
            cards.append({"id": body["lora_name"], "owned_by": owner, "parent": "base"})
        told = {"data": cards} if request.url.path == "/v1/models" else {"version": "0.32.0"}
        return httpx.Response(200, stream=httpx.ByteStream(huge[0] if huge else json.dumps(told).encode()))

    fleet = Fleet(Settings(probe_interval_s=3600.0), httpx.MockTransport(answer))
    providers = {name: ProviderConfig("auto", "http://one:1/v1") for name in {target.provider for target in targets}}
    directory = Snapshot(1, "h", providers, {"m": ModelConfig(targets)})
    fleet.apply_snapshot(directory)
    operations = Operations(fleet, 5.0, 10_000)

    async def tell(name: str, **said: Any) -> list[OperationResult]:
        asked.clear()
        return await operations.run(directory, "m", name, said, read_only=False)

    return Gpu(huge, asked, fleet, tell)


async def found(gpu: Gpu) -> None:
    for endpoint in gpu.fleet.endpoints:
        await gpu.fleet.reprobe(endpoint)


async def test_an_adapter_that_was_loaded_is_known_when_that_is_answered():
    vllm = gpu("vllm", Target("gpu", "base", lora="sql"))
    await found(vllm)
    (endpoint,) = vllm.fleet.endpoints
    assert endpoint.provider.lora_adapters == {}
    (outcome,) = await vllm.tell("load_lora", lora_name="sql", lora_path="/sql")
    assert outcome.status == 200 and endpoint.provider.lora_adapters == {"sql": None}


async def test_an_endpoint_of_two_targets_is_told_once():
    vllm = gpu("vllm", Target("gpu", "base"), Target("gpu", "base", lora="sql"), Target("other", "base"))
    await found(vllm)
    assert [outcome.status for outcome in await vllm.tell("flush_cache")] == [200]
    assert vllm.asked == [("POST", "/reset_prefix_cache", {})]
    assert [outcome.status for outcome in await vllm.tell("terminate", confirm=True)] == [501]


async def test_models_of_one_endpoint_are_each_put_to_sleep():
    ollama = gpu("library", Target("gpu", "small"), Target("gpu", "large"))
    (endpoint,) = ollama.fleet.endpoints
    endpoint.apply_probe_result(ProbeResult("ollama"))
    assert len(await ollama.tell("sleep")) == 2
    assert [body["model"] for _, path, body in ollama.asked if path == "/api/generate"] == ["small", "large"]


async def test_generate_is_asked_of_the_lora_adapter_or_not_at_all():
    vllm = gpu("vllm", Target("gpu", "base", lora="sql"))
    await found(vllm)
    assert [outcome.status for outcome in await vllm.tell("generate", token_ids=[1])] == [404] and not vllm.asked
    await vllm.tell("load_lora", lora_name="sql", lora_path="/sql")
    await vllm.tell("generate", token_ids=[1])
    assert vllm.asked == [("POST", "/inference/v1/generate", {"token_ids": [1], "model": "sql"})]
    sglang = gpu("sglang", Target("gpu", "base", lora="sql"))
    await found(sglang)
    (outcome,) = await sglang.tell("generate", text="Hi")
    assert outcome.status == 501 and "'sql'" in str(outcome.error) and not sglang.asked


async def test_an_answer_that_is_too_large_is_not_kept():
    vllm = gpu("vllm", Target("gpu", "base"))
    await found(vllm)
    vllm.huge.append(b"x" * 20_000)
    (outcome,) = await vllm.tell("metrics")
    assert outcome.status == 502 and "larger than 10000 bytes" in str(outcome.error) and outcome.answer is None


async def test_an_engine_that_is_not_found_yet_is_not_one_without_operations():
    vllm = gpu("vllm", Target("gpu", "base"))
    (outcome,) = await vllm.tell("sleep")
    assert outcome.status == 502 and "not known yet" in str(outcome.error) and not vllm.asked
    await found(vllm)
    assert [outcome.status for outcome in await vllm.tell("sleep")] == [200]


WRONG: dict[ArgumentType, list[Any]] = {
    "string": [1, True, [], {}],
    "integer": ["1", 1.5, True, []],
    "number": ["1", True],
    "boolean": [1, "true"],
    "object": [[], "x", 1],
    "array": [{}, "x", 1],
    "any": [],
}


@pytest.mark.parametrize(("engine", "name"), ALL)
def test_an_argument_of_a_wrong_type_is_named(engine: str, name: str):
    operation = find_operation(engine, name)
    for key, argument in operation.arguments.items():
        for wrong in WRONG[argument.type_name]:
            with pytest.raises(InvalidRequest) as refused:
                build_call(name, Operation(operation.method, operation.paths, {key: argument}), {key: wrong}, "m")
            assert refused.value.param == key


@pytest.mark.parametrize("engine", [*ENGINE_OPERATIONS, "openai"])
def test_what_is_not_offered_is_refused_with_a_reason(engine: str):
    offer = ENGINE_OPERATIONS.get(engine)
    for name in OPERATION_NAMES - (offer.operations.keys() if offer else set()):
        with pytest.raises(OperationNotSupported) as refused:
            find_operation(engine, name)
        assert engine in refused.value.message and name in refused.value.message


def test_only_what_ends_an_engine_needs_confirmation():
    assert {name for engine, name in ALL if find_operation(engine, name).needs_confirmation} == {"terminate"}


def test_the_manual_holds_every_operation():
    manual = (Path(__file__).parents[2] / "docs" / "engines" / "operations.md").read_text()
    assert operations_manual() in manual, "write docs/engines/operations.md anew: operations_manual() tells its part"
