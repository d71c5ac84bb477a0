"""The attacks, by name. Each makes its bytes first, and then attacks over and over with so many callers at a time."""

import asyncio
import contextlib
import json
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.support.hostile_team.connection import HostileTeam, chat, read_response
from tests.support.hostile_team.host import HostileHost
from tests.support.scripted_engine import chunk, completion

CHAT, MESSAGES, RESPONSES, INFERENCE = "/v1/chat/completions", "/v1/messages", "/v1/responses", "/inference"

Step = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Attack:
    """An attack of a hostile team: `prepare` makes the step that each of the callers repeats."""

    prepare: Callable[[HostileTeam, HostileHost], Awaitable[Step]]
    callers: int = 4


def _bodies(callers: int, *made: Callable[[], tuple[str, bytes]]) -> Attack:
    """Sends these bodies in turn."""

    async def prepare(team: HostileTeam, host: HostileHost) -> Step:
        requests = [each() for each in made]
        sent = 0

        async def step() -> None:
            nonlocal sent
            path, body = requests[sent % len(requests)]
            sent += 1
            await team.send(path, body)

        return step

    return Attack(prepare, callers)


def _messages(number: int, parts: int) -> list[Any]:
    content = [{"type": "text", "text": "a"}] * parts
    return [{"role": ("user", "assistant")[at % 2], "content": content} for at in range(number)]


def _items_over_the_cap() -> tuple[str, bytes]:
    return CHAT, chat(messages=[{"role": "user", "content": "a"}] * 900_000)


def _responses_items_over_the_cap() -> tuple[str, bytes]:
    return RESPONSES, json.dumps({"model": "hostile", "input": [{"role": "user", "content": "a"}] * 700_000}).encode()


def _items_within_caps() -> tuple[str, bytes]:
    return CHAT, chat(messages=_messages(9_999, 2))


def _items_to_translate() -> tuple[str, bytes]:
    return CHAT, chat("hostile-claude", messages=_messages(9_999, 2), max_tokens=10)


def _messages_to_translate() -> tuple[str, bytes]:
    return MESSAGES, json.dumps({"model": "hostile", "max_tokens": 10, "messages": _messages(9_999, 2)}).encode()


def _responses_to_translate() -> tuple[str, bytes]:
    items = [{"role": ("user", "assistant")[at % 2], "content": "a"} for at in range(9_999)]
    return RESPONSES, json.dumps({"model": "hostile", "input": items, "store": False}).encode()


def _tools_within_caps() -> tuple[str, bytes]:
    properties = {f"p{at}": {"type": "string"} for at in range(40)}
    tools = [
        {"type": "function", "function": {"name": f"t{at}", "parameters": {"type": "object", "properties": properties}}}
        for at in range(1_900)
    ]
    return CHAT, chat("hostile-claude", tools=tools, max_tokens=10)


def _unknown_keys() -> tuple[str, bytes]:
    return CHAT, chat(**{f"k{at}": 0 for at in range(1_500_000)})


def _keys_within_caps() -> tuple[str, bytes]:
    return CHAT, chat(metadata={f"k{at}": "v" for at in range(190_000)})


def _values_within_caps() -> tuple[str, bytes]:
    return CHAT, chat(logit_bias=[0] * 990_000)


def _exponents_small() -> tuple[str, bytes]:
    """Numbers that the decoder computes digit by digit, in a body that is parsed in the event loop."""
    return CHAT, b'{"model":"hostile-claude","messages":[{"role":"user","content":"a"}],"x":[%b]}' % b",".join([b"1e300"] * 40_000)


def _exponents_large() -> tuple[str, bytes]:
    schema = b'{"type":"object","properties":{"a":{"enum":[%b]}}}' % b",".join([b"5e-324"] * 900_000)
    tool = b'{"type":"function","function":{"name":"f","parameters":%b}}' % schema
    return CHAT, b'{"model":"hostile-claude","messages":[{"role":"user","content":"a"}],"tools":[%b]}' % tool


def _exponents_within_strings() -> tuple[str, bytes]:
    """They are searched for numbers, and refused for none."""
    return CHAT, chat("hostile-claude", messages=[{"role": "user", "content": "1e300," * 3_000_000}])


def _deep_large() -> tuple[str, bytes]:
    return CHAT, b'{"model":"hostile","messages":[{"role":"user","content":"a"}],"metadata":' + b"[" * 20_000_000


def _deep_small() -> tuple[str, bytes]:
    return CHAT, b'{"model":"hostile","messages":[{"role":"user","content":"a"}],"metadata":%b0%b}' % (b"[" * 30_000, b"]" * 30_000)


def _deep_within_caps() -> tuple[str, bytes]:
    deep = b'{"a":' * 490 + b"0" + b"}" * 490
    return CHAT, b'{"model":"hostile","messages":[{"role":"user","content":"a"}],"metadata":[%b]}' % b",".join([deep] * 380)


def _small_but_many_objects() -> tuple[str, bytes]:
    """The body is smaller than those that are counted."""
    return CHAT, chat("hostile-claude", messages=[{"role": ("user", "assistant")[at % 2], "content": "a"} for at in range(1_500)])


def _image() -> tuple[str, bytes]:
    url = "data:image/png;base64," + "iVBORw0KGgo" + "A" * 20_000_001
    return CHAT, chat("hostile-claude", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}])


def _long_text() -> tuple[str, bytes]:
    return CHAT, chat("hostile-claude", messages=[{"role": "user", "content": "\\u00e9 \U0001f600" * 1_000_000}])


async def _echo(team: HostileTeam, host: HostileHost) -> Step:
    """The host repeats a long field's name, in which a pattern for secrets could search for ever."""
    name = "sk-" + "a-_" * 1_000_000
    body = chat(**{name: 1})
    error = {"message": f"Unrecognized request argument supplied: {name}", "type": "invalid_request_error", "param": name, "code": name}
    host.answer = 400, json.dumps({"error": error}).encode()
    return lambda: team.send(CHAT, body)


def _constraints(model: str) -> Attack:
    async def prepare(team: HostileTeam, host: HostileHost) -> Step:
        sent = 0

        async def step() -> None:
            nonlocal sent
            sent += 1
            properties = {
                f"p{at}": {"type": "string", "pattern": "^([a-z]{1,50}-){1,9}$", "maxLength": 500, "title": f"{sent}"} for at in range(300)
            }
            schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
            fields: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}
            await team.send(CHAT, chat(model, **fields))

        return step

    return Attack(prepare, 31)


async def _open_uploads(team: HostileTeam, host: HostileHost) -> Step:
    """Declares 31 MB, sends nearly all of it, and waits."""
    block = b" " * 15_000_000

    async def step() -> None:
        async with team.connect() as (reader, writer):
            writer.write(team.head(CHAT, 31_000_000))
            with contextlib.suppress(ConnectionError):
                writer.write(block)
                await writer.drain()
                writer.write(block)
                await writer.drain()
            with contextlib.suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError):
                async with asyncio.timeout(2):
                    status, _ = await read_response(reader)
                    team.statuses[str(status)] += 1
                    await asyncio.sleep(0.1)

    return step


async def _tiny_chunks(team: HostileTeam, host: HostileHost) -> Step:
    """A body in chunks of one byte, each of which the parser hands over by itself."""
    head = team.head(CHAT, 0).replace(b"content-length: 0", b"transfer-encoding: chunked")
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in b" " * 1_000_000 + chat()) + b"0\r\n\r\n"

    async def step() -> None:
        async with team.connect() as (reader, writer):
            writer.write(head + body)
            status, _ = await read_response(reader)
            team.statuses[str(status)] += 1

    return step


async def _aborted_uploads(team: HostileTeam, host: HostileHost) -> Step:
    block = b" " * 20_000_000

    async def step() -> None:
        with contextlib.suppress(ConnectionError):
            async with team.connect() as (_, writer):
                writer.write(team.head(CHAT, 31_000_000) + block)
                await writer.drain()
        team.statuses["aborted"] += 1
        await asyncio.sleep(0.05)

    return step


async def _aborted_while_waiting(team: HostileTeam, host: HostileHost) -> Step:
    """The whole body is there, the host says nothing, and the caller leaves."""
    host.silent = True
    body = chat("hostile-engine", messages=[{"role": "user", "content": "a" * 20_000_000}])

    async def step() -> None:
        with contextlib.suppress(ConnectionError):
            async with team.connect() as (_, writer):
                writer.write(team.head(CHAT, len(body)) + body)
                await writer.drain()
                await asyncio.sleep(random.uniform(0.1, 1.5))
        team.statuses["aborted"] += 1

    return step


def _redacted(body: bytes) -> Attack:
    """The gateway records the structure of the body, and not its text."""

    async def prepare(team: HostileTeam, host: HostileHost) -> Step:
        return lambda: team.send(CHAT, body, key=team.redacted_key)

    return Attack(prepare, 3)


def _masked(body: bytes) -> Attack:
    """The gateway records the body without what its detectors find in it."""

    async def prepare(team: HostileTeam, host: HostileHost) -> Step:
        return lambda: team.send(CHAT, body, key=team.masked_key)

    return Attack(prepare, 3)


def _text(unit: str, size: int) -> bytes:
    return chat(messages=[{"role": "user", "content": unit * (size // len(unit))}])


def _numbers() -> bytes:
    return chat(messages=[{"role": "user", "content": " ".join(map(str, range(150_000)))}])


def _ordinary() -> tuple[str, bytes]:
    messages = [{"role": ("user", "assistant")[at % 2], "content": "a" * 400} for at in range(2_500)]
    return CHAT, chat("hostile-claude", messages=messages, max_tokens=10)


def _wrong_items() -> tuple[str, bytes]:
    """Each item violates the schema of the function."""
    return INFERENCE, json.dumps(
        {"function_name": "hostile-function", "input": {"system": {"items": [1] * 100_000}, "messages": []}}
    ).encode()


def _many_wrong_inputs() -> tuple[str, bytes]:
    part = {"type": "narthex::template", "name": "system", "arguments": {"items": [1] * 80_000}}
    return CHAT, chat("hostile-function", messages=[{"role": "user", "content": [part]}], **{"narthex::input": {"system": {"items": []}}})


def _repeated_list() -> tuple[str, bytes]:
    return CHAT, chat("hostile-function", **{"narthex::input": {"system": {"items": ["a"], "times": 100_000_000}}})


def _large_responses(model: str, *, redacted: bool = False) -> Attack:
    """The host sends a large response, of which half is one text, and half the probabilities of many tokens."""

    async def prepare(team: HostileTeam, host: HostileHost) -> Step:
        logprobs = {"content": [{"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}] * 12_000}
        choices: list[dict[str, Any]] = [
            {"index": at, "message": {"role": "assistant", "content": "a"}, "logprobs": logprobs, "finish_reason": "stop"}
            for at in range(12)
        ]
        choices[0]["message"] = {"role": "assistant", "content": "a" * 10_000_000}
        host.answer = 200, json.dumps({**completion(), "choices": choices}).encode()
        return lambda: team.send(CHAT, chat(model), key=team.redacted_key if redacted else None)

    return Attack(prepare, 3)


async def _fast_stream(team: HostileTeam, host: HostileHost) -> Step:
    """A stream of 100,000 small events, as fast as they are taken."""
    events = [b"data: %b\n\n" % json.dumps(chunk({"content": f"word {at} "})).encode() for at in range(100_000)]
    events += [b"data: %b\n\n" % json.dumps(each).encode() for each in (chunk({}, "stop"), chunk(usage=completion()["usage"]))]
    events.append(b"data: [DONE]\n\n")
    host.answer, host.streams = (200, b"".join(events)), True
    body = chat(stream=True)
    return lambda: team.send(CHAT, body)


async def _masked_streams(team: HostileTeam, host: HostileHost) -> Step:
    """The gateway records streams without what its detectors find, and their frames hold long texts of nothing but that, or nearly that."""
    units = ("(0", "1.1.1.1 ", " @a.bc", "q")
    events = [chunk({"content": unit * (200_000 // len(unit))}) for unit in units]
    events += [chunk({}, "stop"), chunk(usage=completion()["usage"])]
    stream = b"".join([b"data: %b\n\n" % json.dumps(each).encode() for each in events]) + b"data: [DONE]\n\n"
    host.answer, host.streams = (200, stream), True
    body = chat(stream=True)
    return lambda: team.send(CHAT, body, key=team.masked_key)


async def _histories(team: HostileTeam, host: HostileHost) -> Step:
    """A conversation of ten turns of 3 MB, which each request of 120 bytes pulls in."""
    last: str | None = None
    for _ in range(10):
        body = json.dumps({"model": "hostile", "input": "a" * 3_000_000, "previous_response_id": last}).encode()
        status, received = await team.send(RESPONSES, body)
        assert status == 200, received[:500]
        last = json.loads(received)["id"]
    body = json.dumps({"model": "hostile", "input": "a", "previous_response_id": last, "store": False}).encode()
    return lambda: team.send(RESPONSES, body)


async def _unknown_responses(team: HostileTeam, host: HostileHost) -> Step:
    async def step() -> None:
        digits = os.urandom(16).hex()
        id = f"resp_01980000-{digits[:4]}-7{digits[4:7]}-8{digits[7:10]}-{digits[10:22]}"
        await team.send(f"{RESPONSES}/{id}", method="GET")
        await team.send(RESPONSES, json.dumps({"model": "hostile", "input": "a", "previous_response_id": id}).encode())

    return step


def _hang_ups(model: str) -> Attack:
    async def prepare(team: HostileTeam, host: HostileHost) -> Step:
        host.silent = True
        body = chat(model, max_tokens=100_000)

        async def step() -> None:
            async with team.connect() as (_, writer):
                received = host.received
                writer.write(team.head(CHAT, len(body)) + body)
                async with asyncio.timeout(60):
                    while host.received == received:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
            team.statuses["aborted"] += 1

        return step

    return Attack(prepare, 1)


async def _hedged(team: HostileTeam, host: HostileHost) -> Step:
    """A second attempt is made for each request that takes longer than half of them."""
    host.delay_s = 0.15
    body = chat("hostile-pool")
    return lambda: team.send(CHAT, body)


async def _resumed(team: HostileTeam, host: HostileHost) -> Step:
    """Each stream breaks off after a long text, and is resumed elsewhere with all of the text so far, seven times."""
    event = {**chunk({"content": "word " * 8_000}), "usage": None}
    host.answer = 200, b"data: %b\n\n" % json.dumps(event).encode() * 5
    host.streams = host.breaks_off = True
    body = chat("hostile-pool", stream=True)
    return lambda: team.send(CHAT, body, resumes=True)


_TRAVELLING = {
    "lora_path": "other",
    "lora": [{"id": 0, "scale": 1}],
    "id_slot": 1,
    "adapter_name": "other",
    "bootstrap_host": "10.0.0.1",
    "session_params": {"id": "1"},
    "custom_logit_processor": "code",
    "data_parallel_rank": 1,
    "kv_transfer_params": {"do_remote_decode": True},
    "priority": -100,
    "cache_salt": "salt-of-another-team",
}


async def _travelling_fields(team: HostileTeam, host: HostileHost) -> Step:
    bodies = [chat("hostile-engine", **{name: value}) for name, value in _TRAVELLING.items()]
    return _in_turn(team, CHAT, bodies)


async def _engine_words(team: HostileTeam, host: HostileHost) -> Step:
    words: list[dict[str, Any]] = [
        {"max_tokens": 1, "n_predict": 100_000},
        {"max_tokens": 1, "max_new_tokens": 100_000},
        {"max_tokens": 1, "generation_config": {"max_new_tokens": 100_000}},
        {"max_completion_tokens": 1, "max_tokens": 100_000},
    ]
    return _in_turn(team, CHAT, [chat(model, **each) for each in words for model in ("hostile", "hostile-engine")])


async def _media_addresses(team: HostileTeam, host: HostileHost) -> Step:
    urls = ("file:///etc/passwd", "http://169.254.169.254/latest/meta-data", f"http://127.0.0.1:{host.port}/", "gopher://127.0.0.1/")
    parts = [[{"type": "image_url", "image_url": {"url": url}}] for url in urls]
    return _in_turn(team, CHAT, [chat("hostile-engine", messages=[{"role": "user", "content": each}]) for each in parts])


async def _reserved_fields(team: HostileTeam, host: HostileHost) -> Step:
    fields = {"tensorzero::credentials": {"key": "very-secret"}, "narthex::anything": "very-secret", "tensorzero::tags": {"a": "b"}}
    return _in_turn(team, CHAT, [chat(**{name: value}) for name, value in fields.items()])


def _in_turn(team: HostileTeam, path: str, bodies: list[bytes]) -> Step:
    sent = 0

    async def step() -> None:
        nonlocal sent
        sent += 1
        await team.send(path, bodies[sent % len(bodies)])

    return step


async def _slow_heads(team: HostileTeam, host: HostileHost) -> Step:
    """A byte each second: slower ones only take longer to end."""

    async def step() -> None:
        with contextlib.suppress(ConnectionError):
            async with team.connect() as (reader, writer):
                writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nx: ")
                closed = asyncio.create_task(reader.read())
                while not closed.done():
                    writer.write(b"a")
                    await asyncio.wait([closed], timeout=1)
        team.statuses["closed"] += 1

    return step


async def _connections(team: HostileTeam, host: HostileHost) -> Step:
    """Opens, sends what is no HTTP or nothing at all, and leaves."""

    async def step() -> None:
        with contextlib.suppress(ConnectionError):
            async with team.connect() as (_, writer):
                writer.write(b"\x16\x03\x01\r\n\r\n" if team.statuses["opened"] % 2 else b"")
                team.statuses["opened"] += 1
                await asyncio.sleep(0.5)

    return step


async def _pipelined_without_a_key(team: HostileTeam, host: HostileHost) -> Step:
    """Sends as many of the smallest requests as fit in one read, and in turn as many of the smallest header lines."""
    sent = 0

    async def step() -> None:
        nonlocal sent
        sent += 1
        with contextlib.suppress(ConnectionError):
            async with team.connect() as (_, writer):
                small = b"GET / HTTP/1.1\r\n"
                writer.write((small + b"\r\n") * 3_600 if sent % 2 else small + b"a:\r\n" * 16_000)
                await asyncio.sleep(1)
        team.statuses["pipelined"] += 1

    return step


async def _pipelined(team: HostileTeam, host: HostileHost) -> Step:
    """A thousand requests in one write, and nothing is read."""
    body = chat("unknown")
    requests = (team.head(CHAT, len(body)) + body) * 1_000

    async def step() -> None:
        with contextlib.suppress(ConnectionError):
            async with team.connect() as (_, writer):
                writer.write(requests)
                await asyncio.sleep(1)
        team.statuses["pipelined"] += 1

    return step


ATTACKS: dict[str, Attack] = {
    "echoed_field_name": Attack(_echo, 2),
    "items_over_the_cap": _bodies(3, _items_over_the_cap, _responses_items_over_the_cap),
    "items_within_caps": _bodies(3, _items_within_caps),
    "items_to_translate": _bodies(3, _items_to_translate, _messages_to_translate, _responses_to_translate),
    "tools_within_caps": _bodies(3, _tools_within_caps),
    "unknown_keys": _bodies(3, _unknown_keys),
    "keys_within_caps": _bodies(3, _keys_within_caps),
    "values_within_caps": _bodies(3, _values_within_caps),
    "exponents": _bodies(3, _exponents_small, _exponents_large, _exponents_within_strings),
    "deep": _bodies(3, _deep_large, _deep_small, _deep_within_caps),
    "small_with_many_objects": _bodies(3, _small_but_many_objects),
    "large_image": _bodies(2, _image),
    "long_text": _bodies(2, _long_text),
    "heavy_constraints": _constraints("hostile"),
    "heavy_constraints_over_the_limit": _constraints("hostile-limited"),
    "open_uploads": Attack(_open_uploads, 40),
    "tiny_chunks": Attack(_tiny_chunks, 4),
    "aborted_uploads": Attack(_aborted_uploads, 8),
    "aborted_while_waiting": Attack(_aborted_while_waiting, 4),
    "redacted_items": _redacted(_items_within_caps()[1]),
    "redacted_text": _redacted(_long_text()[1]),
    "masked_numbers": _masked(_numbers()),
    "masked_keys": _masked(_text("eyJ-gho_aaaaaaaaaaaaaaaaaaaa-", 1_000_000)),
    "masked_own_patterns": _masked(_text("q", 1_000_000)),
    "masked_streams": Attack(_masked_streams, 3),
    "ordinary": _bodies(8, _ordinary),
    "wrong_items": _bodies(3, _wrong_items, _many_wrong_inputs),
    "repeated_list": _bodies(3, _repeated_list),
    "large_responses": _large_responses("hostile"),
    "large_responses_redacted": _large_responses("hostile", redacted=True),
    "fast_streams": Attack(_fast_stream, 4),
    "histories": Attack(_histories, 8),
    "unknown_responses": Attack(_unknown_responses, 64),
    "hang_ups": _hang_ups("hostile"),
    "hang_ups_at_an_engine": _hang_ups("hostile-engine"),
    "hedged": Attack(_hedged, 32),
    "resumed": Attack(_resumed, 8),
    "travelling_fields": Attack(_travelling_fields, 2),
    "engine_words": Attack(_engine_words, 2),
    "media_addresses": Attack(_media_addresses, 2),
    "reserved_fields": Attack(_reserved_fields, 2),
    "slow_heads": Attack(_slow_heads, 300),
    "connections": Attack(_connections, 300),
    "pipelined": Attack(_pipelined, 4),
    "pipelined_without_a_key": Attack(_pipelined_without_a_key, 100),
}
