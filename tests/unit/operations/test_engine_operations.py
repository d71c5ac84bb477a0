"""Operations of engines are data: a call holds exactly the given arguments, or an error names the argument that is wrong."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.fleet.fleet import Fleet
from app.gateway.fleet.operations import OperationResult, Operations
from app.settings import Settings
from providers.adapters.probe import ProbeResult
from providers.canonical.errors import InvalidRequest, OperationNotSupported
from providers.catalogue import ENGINE_OPERATIONS, ENGINE_PROBES, OPERATION_NAMES, find_operation
from providers.operations.manual import operations_manual
from providers.operations.operation import ArgumentType, Operation, build_call
from tests.support.case_tables import assert_every
from tests.support.strategies.chat_strategies import bounded

ALL_OPERATIONS = [(engine, name) for engine, offer in ENGINE_OPERATIONS.items() for name in offer.operations]
VALUES_BY_KIND: dict[ArgumentType, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=20).filter(lambda text: "\x00" not in text),
    "integer": st.integers(-(2**53), 2**53),
    "number": st.floats(0, 100, allow_nan=False),
    "boolean": st.booleans(),
    "object": st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2),
    "array": st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    "any": st.integers() | st.text(max_size=4),
}


def test_every_detectable_engine_has_an_operations_offer():
    assert set(ENGINE_OPERATIONS) == set(ENGINE_PROBES) - {"auto"}


def test_no_operation_is_both_offered_and_excluded():
    for offer in ENGINE_OPERATIONS.values():
        assert not offer.operations.keys() & offer.unavailable.keys()


@bounded
@given(st.sampled_from(ALL_OPERATIONS), st.data())
def test_operation_call_contains_the_given_arguments_and_only_fixed_ones_besides(engine_and_name: tuple[str, str], data: st.DataObject):
    engine, name = engine_and_name
    operation = find_operation(engine, name)
    arguments = {
        key: data.draw(VALUES_BY_KIND[argument.type_name])
        for key, argument in operation.arguments.items()
        if argument.required or data.draw(st.booleans())
    }
    if operation.exactly_one_of:
        assume(sum(bool(arguments.get(key)) or type(arguments.get(key)) is int for key in operation.exactly_one_of) == 1)
        arguments = {key: value for key, value in arguments.items() if value or type(value) is int or key not in operation.exactly_one_of}
    sent = build_call(name, operation, arguments, "the-model")
    arguments = {key: value for key, value in arguments.items() if operation.arguments[key].location != "nowhere"}
    in_query = {key for key, argument in operation.arguments.items() if argument.location == "query"} & arguments.keys()
    assert len(sent.paths) == len(operation.paths) and sent.method == operation.method
    for path, expected_path in zip(sent.paths, operation.paths, strict=True):
        assert urlsplit(path).path == expected_path
        assert {key for key, _ in parse_qsl(urlsplit(path).query, keep_blank_values=True)} == in_query
    if operation.method == "POST":
        body = json.loads(sent.body)
        assert {key: value for key, value in body.items() if key in arguments} == {
            key: arguments[key] for key in arguments.keys() - in_query
        }
        assert body.keys() - arguments.keys() <= {*operation.fixed_body, operation.model_field}
    else:
        assert sent.body == b""


@bounded
@given(
    st.sampled_from([(engine, name) for engine, name in ALL_OPERATIONS if not find_operation(engine, name).accepts_any_field]),
    st.text(min_size=1),
)
def test_unknown_argument_is_refused(engine_and_name: tuple[str, str], key: str):
    operation = find_operation(*engine_and_name)
    examples: dict[ArgumentType, Any] = {"object": {}, "array": [], "integer": 1}
    needed = {name: examples.get(argument.type_name, "x") for name, argument in operation.arguments.items() if argument.required}
    if key not in operation.arguments:
        with pytest.raises(InvalidRequest, match="no argument"):
            build_call(engine_and_name[1], operation, {**needed, key: 1}, "m")


@pytest.mark.parametrize("engine", sorted(engine for engine, name in ALL_OPERATIONS if name == "generate"))
def test_streamed_generate_is_refused_by_name(engine: str):
    generate, needed = find_operation(engine, "generate"), {"inputs": "x"} if engine == "tgi" else {}
    with pytest.raises(InvalidRequest) as refused:
        build_call("generate", generate, {**needed, "stream": True}, "m")
    assert refused.value.param == "stream"
    if generate.accepts_any_field:
        assert json.loads(build_call("generate", generate, {"stream": False}, "m").body)["stream"] is False


@pytest.mark.parametrize(
    "arguments", [{}, {"request_ids": []}, {"request_ids": None}, {"abort_all": False}, {"request_ids": ["a"], "abort_all": True}], ids=str
)
def test_vllm_abort_with_no_or_two_targets_is_refused(arguments: dict[str, Any]):
    with pytest.raises(InvalidRequest, match="request_ids, abort_all"):
        build_call("abort", find_operation("vllm", "abort"), arguments, "m")


def test_vllm_abort_takes_either_request_ids_or_abort_all():
    abort = find_operation("vllm", "abort")
    assert json.loads(build_call("abort", abort, {"request_ids": ["a"], "abort_all": False}, "m").body) == {"request_ids": ["a"]}
    assert json.loads(build_call("abort", abort, {"request_ids": [], "abort_all": True}, "m").body) == {}


@pytest.mark.parametrize(("engine", "target_field"), [("sglang", "rid"), ("lmdeploy", "session_id")])
def test_abort_without_a_target_is_refused(engine: str, target_field: str):
    """SGLang aborts every request whose id begins with the `rid`, so an empty one means all of them."""
    abort = find_operation(engine, "abort")
    for arguments in ({}, {target_field: None}, {"abort_all": False}, {"abort_message": "no"}):
        with pytest.raises(InvalidRequest, match=f"{target_field}, abort_all"):
            build_call("abort", abort, arguments, "m")
    assert json.loads(build_call("abort", find_operation("lmdeploy", "abort"), {"session_id": 0}, "m").body) == {"session_id": 0}


@pytest.mark.parametrize("tags", [[{"a": 1}], [None], [["weights"]]], ids=str)
def test_wake_tags_that_are_not_strings_are_refused(tags: list[Any]):
    with pytest.raises(InvalidRequest, match="strings") as refused:
        build_call("wake", find_operation("vllm", "wake"), {"tags": tags}, "m")
    assert refused.value.param == "tags"


class FakeEngine(NamedTuple):
    """An engine with the LoRA adapters that were loaded. `requests`: those it got. `oversized_responses`: one here is sent instead."""

    oversized_responses: list[bytes]
    requests: list[tuple[str, str, Any]]
    fleet: Fleet
    operate: Callable[..., Awaitable[list[OperationResult]]]


def fake_engine(owner: str, *targets: Target) -> FakeEngine:
    oversized_responses: list[bytes] = []
    cards: list[dict[str, Any]] = [{"id": "base", "owned_by": owner, "max_model_len": 99}]
    requests: list[tuple[str, str, Any]] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content or b"null")
        requests.append((request.method, request.url.path, body))
        if request.url.path.endswith("load_lora_adapter"):
            cards.append({"id": body["lora_name"], "owned_by": owner, "parent": "base"})
        response_body = {"data": cards} if request.url.path == "/v1/models" else {"version": "0.32.0"}
        return httpx2.Response(
            200, stream=httpx2.ByteStream(oversized_responses[0] if oversized_responses else json.dumps(response_body).encode())
        )

    fleet = Fleet(Settings(probe_interval_s=3600.0), httpx2.MockTransport(respond))
    providers = {name: ProviderConfig("auto", "http://one:1/v1") for name in {target.provider for target in targets}}
    snapshot = Snapshot(1, "h", providers, {"m": ModelConfig(targets)})
    fleet.apply_snapshot(snapshot)
    operations = Operations(fleet, 5.0, 10_000)

    async def operate(name: str, **arguments: Any) -> list[OperationResult]:
        requests.clear()
        return await operations.run(operations.plan(snapshot, "m", name, arguments, read_only=False))

    return FakeEngine(oversized_responses, requests, fleet, operate)


async def probe_endpoints(engine: FakeEngine) -> None:
    for endpoint in engine.fleet.endpoints:
        await engine.fleet.reprobe(endpoint)


async def test_loaded_lora_adapter_is_known_once_the_load_returns():
    vllm = fake_engine("vllm", Target("gpu", "base", lora="sql"))
    await probe_endpoints(vllm)
    (endpoint,) = vllm.fleet.endpoints
    assert endpoint.provider.lora_adapters == {}
    (outcome,) = await vllm.operate("load_lora", lora_name="sql", lora_path="/sql")
    assert outcome.status == 200 and endpoint.provider.lora_adapters == {"sql": None}


async def test_endpoint_shared_by_two_targets_is_called_once():
    vllm = fake_engine("vllm", Target("gpu", "base"), Target("gpu", "base", lora="sql"), Target("other", "base"))
    await probe_endpoints(vllm)
    assert [outcome.status for outcome in await vllm.operate("flush_cache")] == [200]
    assert vllm.requests == [("POST", "/reset_prefix_cache", {})]
    assert [outcome.status for outcome in await vllm.operate("terminate", confirm=True)] == [501]


async def test_each_model_of_one_endpoint_is_put_to_sleep():
    ollama = fake_engine("library", Target("gpu", "small"), Target("gpu", "large"))
    (endpoint,) = ollama.fleet.endpoints
    endpoint.apply_probe_result(ProbeResult("ollama"))
    assert len(await ollama.operate("sleep")) == 2
    assert [body["model"] for _, path, body in ollama.requests if path == "/api/generate"] == ["small", "large"]


async def test_generate_targets_the_lora_adapter_or_is_refused():
    vllm = fake_engine("vllm", Target("gpu", "base", lora="sql"))
    await probe_endpoints(vllm)
    assert [outcome.status for outcome in await vllm.operate("generate", token_ids=[1])] == [404] and not vllm.requests
    await vllm.operate("load_lora", lora_name="sql", lora_path="/sql")
    await vllm.operate("generate", token_ids=[1])
    assert vllm.requests == [("POST", "/inference/v1/generate", {"token_ids": [1], "model": "sql"})]
    sglang = fake_engine("sglang", Target("gpu", "base", lora="sql"))
    await probe_endpoints(sglang)
    (outcome,) = await sglang.operate("generate", text="Hi")
    assert outcome.status == 501 and "'sql'" in str(outcome.error) and not sglang.requests


async def test_oversized_operation_response_is_discarded():
    vllm = fake_engine("vllm", Target("gpu", "base"))
    await probe_endpoints(vllm)
    vllm.oversized_responses.append(b"x" * 20_000)
    (outcome,) = await vllm.operate("metrics")
    assert outcome.status == 502 and "larger than 10000 bytes" in str(outcome.error) and outcome.response is None


async def test_undetected_engine_is_reported_as_502_not_as_lacking_the_operation():
    vllm = fake_engine("vllm", Target("gpu", "base"))
    (outcome,) = await vllm.operate("sleep")
    assert outcome.status == 502 and "not known yet" in str(outcome.error) and not vllm.requests
    await probe_endpoints(vllm)
    assert [outcome.status for outcome in await vllm.operate("sleep")] == [200]


INVALID_VALUES: dict[ArgumentType, list[Any]] = {
    "string": [1, True, [], {}],
    "integer": ["1", 1.5, True, []],
    "number": ["1", True],
    "boolean": [1, "true"],
    "object": [[], "x", 1],
    "array": [{}, "x", 1],
    "any": [],
}


def test_argument_of_the_wrong_type_is_refused_by_name():
    def check(engine_and_name: tuple[str, str]) -> None:
        operation = find_operation(*engine_and_name)
        for key, argument in operation.arguments.items():
            for wrong in INVALID_VALUES[argument.type_name]:
                with pytest.raises(InvalidRequest) as refused:
                    build_call(engine_and_name[1], Operation(operation.method, operation.paths, {key: argument}), {key: wrong}, "m")
                assert refused.value.param == key

    assert_every(check, ALL_OPERATIONS)


@pytest.mark.parametrize("engine", [*ENGINE_OPERATIONS, "openai"])
def test_operation_that_is_not_offered_is_refused_with_a_reason(engine: str):
    offer = ENGINE_OPERATIONS.get(engine)
    for name in OPERATION_NAMES - (offer.operations.keys() if offer else set()):
        with pytest.raises(OperationNotSupported) as refused:
            find_operation(engine, name)
        assert engine in refused.value.message and name in refused.value.message


def test_only_terminate_needs_confirmation():
    assert {name for engine, name in ALL_OPERATIONS if find_operation(engine, name).needs_confirmation} == {"terminate"}


def test_operations_manual_is_up_to_date():
    manual = (Path(__file__).parents[3] / "docs" / "engines" / "operations.md").read_text()
    assert operations_manual(ENGINE_OPERATIONS) in manual, "regenerate docs/engines/operations.md: operations_manual() returns this part"
