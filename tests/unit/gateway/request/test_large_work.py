"""Large work in processes: what breaks a bound is a 422, what takes long delays only its own team, and memory comes back."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.domain.callers import MaskConfig
from app.domain.functions import FunctionConfig, VariantConfig
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.functions.function_table import compile_function
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.routing.function_variants import write_variant
from app.recording.content.masking import compile_rules
from app.recording.content.stream_masking import StreamMasker, mask
from app.settings import Settings
from providers.canonical.errors import InvalidRequest, Unavailable, WorkTooLarge
from providers.dialects.catalogue import CALLER_DIALECTS
from providers.transport.loop_turns import LoopTurns
from tests.support.processes.wait_until import GENEROUS_S, wait_until

RULES = compile_rules(MaskConfig())
# Each of them searches the rest of the text, for an end that does not come, at each letter.
ENDLESS = compile_rules(MaskConfig((), {f"p{number}": f"a[^{number}]*{number}|a" for number in range(10)}))
MiB = 1024 * 1024


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def forks_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def body(text: str, texts: int = 1) -> bytes:
    return msgspec.json.encode({"messages": [{"role": "user", "content": text}] * texts})


@pytest.fixture
async def start() -> AsyncGenerator[Callable[..., LargeRequests]]:
    started: list[LargeRequests] = []

    def start(**settings: Any) -> LargeRequests:
        started.append(LargeRequests(Settings(**settings), LoopTurns()))
        return started[-1]

    yield start
    for each in started:
        pids = each.pool.pids
        await each.stop()
        assert not any(map(is_running, pids))


async def wait_for_processes(large_requests: LargeRequests, number: int) -> list[int]:
    async def are_there() -> bool:
        return len(large_requests.pool.pids) == number

    await wait_until(are_there)
    return large_requests.pool.pids


async def test_body_is_masked_in_a_process_as_here(start: Callable[..., LargeRequests]):
    large_requests = start()
    raw = body("I am jane@example.com, 030 1234567. " * 20_000)
    assert await large_requests.of_team("team").mask(raw, RULES) == mask(raw, RULES)
    assert await large_requests.of_team("team").mask(b"no JSON", RULES) == b"[withheld: 7 bytes]"
    assert len(large_requests.pool.pids) == 1


async def test_stream_is_masked_in_a_process_as_here(start: Callable[..., LargeRequests]):
    here = there = StreamMasker(RULES)
    large_requests = start().of_team("team")
    for text in ("I am jane@exam", "ple.com, 030 123" + "a" * 50_000, "4567", "or 1.1.1.1 " * 5_000, "the end"):
        frame = b"data: %b\n\n" % msgspec.json.encode({"choices": [{"index": 0, "delta": {"content": text}}]})
        there, masked = await large_requests.mask_stream(there, frame)
        assert masked == here.feed(frame)
    assert there.finish() == here.finish()


async def test_stream_beyond_its_time_is_too_large(start: Callable[..., LargeRequests]):
    large_requests = start(large_work_processor_s=0.5).of_team("team")
    frame = b"data: %b\n\n" % body("a" * 300_000)
    with pytest.raises(WorkTooLarge):
        await large_requests.mask_stream(StreamMasker(ENDLESS), frame)


async def test_work_beyond_its_time_is_a_422_that_names_the_bound_and_what_fits(start: Callable[..., LargeRequests]):
    large_requests = start(large_work_processor_s=0.5).of_team("team")
    raw = body("a" * 300_000)
    with pytest.raises(WorkTooLarge) as refused:
        await large_requests.mask(raw, ENDLESS)
    assert refused.value.status == 422
    for part in (f"has {len(raw)} bytes", "0.5 s of processor time", f"{len(raw) // 2} bytes", "NARTHEX_LARGE_WORK_PROCESSOR_S"):
        assert part in refused.value.message
    assert await large_requests.mask(body("jane@example.com"), RULES) == body("[masked: email]")


async def test_work_beyond_its_memory_is_a_422_and_the_memory_comes_back(start: Callable[..., LargeRequests]):
    large_requests = start(large_work_memory_bytes=64 * MiB)
    with pytest.raises(WorkTooLarge, match=r"64 MiB of memory.*NARTHEX_LARGE_WORK_MEMORY_BYTES"):
        await large_requests.of_team("team").mask(body("a", 600_000), RULES)
    await large_requests.of_team("team").mask(body("a" * 10 * MiB), RULES)
    assert sum(map(resident_bytes, large_requests.pool.pids)) < 150 * MiB


async def test_work_that_takes_long_delays_no_other_team(start: Callable[..., LargeRequests]):
    large_requests = start()
    hostile = [asyncio.create_task(large_requests.of_team("hostile").mask(body("a" * 300_000), ENDLESS)) for _ in range(3)]
    await wait_for_processes(large_requests, 1)
    await large_requests.of_team("quiet").mask(body("a"), RULES)  # which starts its process
    began = time.monotonic()
    for _ in range(5):
        await large_requests.of_team("quiet").mask(body("jane@example.com " * 1_000), RULES)
    assert time.monotonic() - began < 2.5 and not any(each.done() for each in hostile)
    for each in hostile:
        each.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)


async def test_work_ends_with_its_caller(start: Callable[..., LargeRequests]):
    large_requests = start()
    work = asyncio.create_task(large_requests.of_team("team").mask(body("a" * 300_000), ENDLESS))
    (pid,) = await wait_for_processes(large_requests, 1)
    await wait_until(lambda: forks_of(pid) != [])
    work.cancel()
    await wait_until(lambda: forks_of(pid) == [])
    assert large_requests.pool.pids == [pid]
    assert await large_requests.of_team("team").mask(body("a"), RULES) == body("a")


async def test_process_that_was_killed_is_replaced(start: Callable[..., LargeRequests]):
    large_requests = start()
    await large_requests.of_team("team").mask(body("a"), RULES)
    (pid,) = large_requests.pool.pids
    os.kill(pid, 9)
    await wait_for_processes(large_requests, 0)
    assert await large_requests.of_team("team").mask(body("a"), RULES) == body("a")


async def test_nothing_begins_once_the_gateway_stops(start: Callable[..., LargeRequests]):
    large_requests = start()
    waiting = [asyncio.create_task(large_requests.of_team("team").mask(body("a" * 300_000), ENDLESS)) for _ in range(2)]
    await asyncio.sleep(0)
    async with asyncio.timeout(GENEROUS_S):
        await large_requests.stop()
        await asyncio.gather(*waiting, return_exceptions=True)
    with pytest.raises(Unavailable):
        await large_requests.of_team("team").mask(body("a"), RULES)


ITEMS = {"type": "object", "properties": {"items": {"type": "array"}, "n": {"type": "integer"}}, "required": ["items", "n"]}


def function_request(template: str, inputs: Any) -> FunctionRequest:
    config = FunctionConfig({"v": VariantConfig("m", system_template=template)}, schemas={"system": ITEMS})
    dialect = CALLER_DIALECTS["openai_chat"]
    sent = dialect.parse_request(b'{"model":"f","messages":[{"role":"user","content":"Hi"}]}')
    return FunctionRequest(compile_function("f", config), dialect, sent, msgspec.Raw(msgspec.json.encode({"system": inputs})))


async def test_template_that_multiplies_is_rendered_in_a_process(start: Callable[..., LargeRequests]):
    large_requests = start(large_work_processor_s=0.5)
    team = large_requests.of_team("team")
    request = function_request("{{ items * n }}", {"items": [1], "n": 3})
    assert not request.is_bounded("v")
    _, raw = await write_variant(team, request, "v", 100)
    assert raw == request.write("v")[1] and b"[1, 1, 1]" in raw
    with pytest.raises(WorkTooLarge, match="render the templates of its function"):
        await write_variant(team, function_request("{{ items * n }}", {"items": [1], "n": 100_000_000}), "v", 100)
    with pytest.raises(InvalidRequest) as refused:
        await write_variant(team, function_request("{{ items * n }}", {"items": [1], "n": "x"}), "v", 100)
    assert refused.value.param == "narthex::input.system.n"


@pytest.mark.parametrize(
    ("template", "is_bounded"),
    [
        ("{{ items }}{{ n }}", True),
        ("{{ '=' * 40 }}{{ 40 * '=' }}{{ n * 12 }} * {# * #}", True),
        ("{{ '*' }}{{ n - 2 * n }}", True),
        ("{{ items * n }}", False),
        ("{{ items * 10000000 }}", False),
        ("{{ items * (n) }}", False),
        ("{{ items * 2 ** n }}", False),
        ("{{ 2 ** n * items }}", False),
        ("{{ items * n.2 }}{{ items[2] * n }}{{ items.2 * n }}", False),
        ("{{ items * 2|int(n) }}", False),
        ("{% set a = items * n %}", False),
    ],
)
def test_template_is_bounded_if_one_factor_is_a_small_number_of_its_own(template: str, is_bounded: bool):
    assert function_request(template, {"items": [], "n": 1}).is_bounded("v") is is_bounded
