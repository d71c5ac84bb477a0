"""Inputs for the functions of providers.wire: usual ones, and those with a few bytes changed.

python -m tests.support.wire_inputs MODULE COUNT SEED compares a compiled module at a path with the twin, for so many inputs,
and fails if it keeps memory.
"""

import importlib.util
import random
import resource
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from providers.wire import twin

Arguments = tuple[Any, ...]

_BEFORE = b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"theirs","choices":'
_AFTERS = (b"}", b',"usage":null}', b', "system_fingerprint": "x"}')
_PREFIX = b'data: {"id":"0199","model":"ours","choices":'
_TEXTS = (
    *(b"", b" word", b"\xc3\xa9t\xc3\xa9", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xc0\xaf", b"\\n", b"\\u00e9", b"\\ud83d\\ude00"),
    *(b"\\ud83d", b"\\udE00", b"\\ud83d\\u0041", b"\\u0000", b'\\"}]', b"\\x", b"\\", b"\x1f", b"\x7f", b"stop", b"}\\n\\n", b"data: "),
)
CHAT_CHOICES = (
    b'[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]',
    b'[{"index": 0, "delta": {"content": "%b"}, "logprobs": null, "finish_reason": null}]',
    b'[{"index":0,"delta":{"role":null,"content":"%b","reasoning_content":null,"tool_calls":null},"logprobs":null,"matched_stop":null}]',
    b'[{"finish_reason":null,"index":12,"delta":{"reasoning_content":"%b"}}]',
    b'[{"index":0,"delta":{"content":"a","refusal":"%b"}}]',
    b'[{"index":0,"delta":{}}]',
    b'[{"index":0,"delta":{"content":"%b"},"finish_reason":"stop"}]',
    b'[{"index":0,"delta":{"role":"assistant","content":"%b"},"finish_reason":null}]',
    b'[{"index":0,"delta":{"content":"%b"},"delta":{"content":"b"}}]',
    b'[{"delta":{"content":"%b"}},{"index":0}]',
    b'[{"index":0,"delta":{"content":[{"type":"text","text":"%b"}]}}]',
)
_COMPLETIONS = (
    b'[{"index":0,"text":"%b","logprobs":null,"finish_reason":null}]',
    b'[{"text":"%b","index":0}]',
    b'[{"text":null,"index":0}]',
    b'[{"text":"a","index":0,"text":"%b"}]',
)
_BYTES = b'"\\{}[]:, \n\r0129aAfFun\x00\x1f\x7f\x80\xc2\xe0\xed\xf0\xf4\xff'


def relay_arguments(chance: random.Random) -> Arguments:
    """HTTP chunks of an engine, cut anywhere."""
    is_chat = chance.random() < 0.8
    after = chance.choice(_AFTERS)
    events = [_event(chance, is_chat, after) for _ in range(chance.randint(0, 4))]
    content = b"".join(events)
    rest_size = chance.randint(0, len(content)) if chance.random() < 0.2 else 0
    if chance.random() < 0.3 and content:
        content = content[: chance.randint(0, len(content))]
    pieces, start = list[bytes](), rest_size
    while start < len(content):
        size = len(content) if chance.random() < 0.7 else chance.randint(1, 40)
        pieces.append(_http_chunk(chance, content[start : start + size]))
        start += size
    if chance.random() < 0.05:
        pieces.append(b"0\r\n\r\n")
    return b"".join(pieces), content[:rest_size], _BEFORE, after, _PREFIX, is_chat


def _event(chance: random.Random, is_chat: bool, after: bytes) -> bytes:
    shape = chance.choice(CHAT_CHOICES if is_chat else _COMPLETIONS)
    if chance.random() < 0.6:
        shape = (CHAT_CHOICES if is_chat else _COMPLETIONS)[0]
    text = b"".join([chance.choice(_TEXTS[:4] if chance.random() < 0.7 else _TEXTS) for _ in range(chance.randint(0, 3))])
    choices = shape.replace(b"%b", text)
    return b"data: " + _BEFORE + (b" " if chance.random() < 0.1 else b"") + choices + after + b"\n\n"


def _http_chunk(chance: random.Random, content: bytes) -> bytes:
    size = b"%x" if chance.random() < 0.8 else chance.choice([b"%X", b"0%x", b"%x;a=b", b"000%x"])
    return size % len(content) + b"\r\n" + content + b"\r\n"


def mutated(chance: random.Random, arguments: Arguments) -> Arguments:
    """The arguments with some bytes of one changed, left out, repeated or added."""
    texts = [at for at, each in enumerate(arguments) if isinstance(each, bytes)]
    at = texts[0] if chance.random() < 0.8 else chance.choice(texts)
    text = bytearray(arguments[at])
    for _ in range(chance.randint(1, 3)):
        position = chance.randint(0, len(text))
        match chance.randint(0, 3):
            case 0 if text:
                text[min(position, len(text) - 1)] = chance.choice(_BYTES)
            case 1:
                del text[position : position + chance.randint(1, 8)]
            case 2:
                text[position:position] = text[position : position + chance.randint(1, 30)]
            case _:
                text[position:position] = bytes([chance.choice(_BYTES)])
    return (*arguments[:at], bytes(text), *arguments[at + 1 :])


_ANSWER = (
    *(b'"id":"chatcmpl-1"', b'"object":"chat.completion"', b'"created":1790000000', b'"model":"theirs"'),
    b'"choices":[{"index":0,"message":{"role":"assistant","content":"%b"},"finish_reason":"stop"}]',
    b'"usage":{"prompt_tokens":42,"completion_tokens":50,"total_tokens":92}',
)
_MESSAGES = (
    b'{"role":"assistant","content":"%b","refusal":null,"annotations":[],"tool_calls":[]}',
    b'{"content":null,"role":"assistant","reasoning_content":"%b"}',
    b'{"role":"assistant","content":"a","reasoning":"%b"}',
    b'{"role":"assistant","content":"a","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}',
    b'{"role":"assistant", "content":"%b"}',
    b'{"role":"user","content":"%b"}',
)
_ANSWER_MEMBERS = (
    *(b'"service_tier":null', b'"system_fingerprint":null', b'"system_fingerprint":"fp"', b'"prompt_logprobs":null'),
    *(b'"kv_transfer_params":null', b'"error":null', b'"service_tier":"default"', b'"citations":null', b'"episode_id":null'),
)


def edit_chat_arguments(chance: random.Random) -> Arguments:
    """A whole answer of an engine."""
    members = [*_ANSWER, *[member for member in _ANSWER_MEMBERS[chance.randint(0, 1) : 5 : 2] if chance.random() < 0.3]]
    text = b"".join([chance.choice(_TEXTS[:4] if chance.random() < 0.7 else _TEXTS) for _ in range(chance.randint(0, 3))])
    if chance.random() < 0.3:
        shape = chance.choice(_MESSAGES)
        members[4] = b'"choices":[{"finish_reason":"length","index":0,"logprobs":null,"message":' + shape + b"}]"
    if chance.random() < 0.1:
        members.append(chance.choice(_ANSWER_MEMBERS))
    if chance.random() < 0.1:
        members[5] = b'"usage":{"completion_tokens":%d,"prompt_tokens":%d,"total_tokens":1,"prompt_tokens_details":null}' % (
            chance.choice([0, 7, 999_999_999, 1_000_000_000]),
            chance.choice([0, 1]),
        )
    if chance.random() < 0.3:
        chance.shuffle(members)
    model = chance.choice(["ours"] * 20 + ["n\u00e9", 'a"b', "x" * 198, "x" * 199, "\ud800", ""])
    return b"{" + b",".join(members).replace(b"%b", text) + b"}", "0199-id", "0199-episode", model


_FIELDS = (
    *(b"Content-Type: application/json", b"date: Mon, 30 Nov 2026 06:00:00 GMT", b"server: uvicorn", b"x-request-id: 1_a/b"),
    *(b"Connection: Keep-Alive", b"connection: close", b"transfer-encoding: chunked", b"Upgrade: h2c", b"x-empty:", b"x-two:  a"),
    *(b"x-trailing: a ", b"x-tab:\ta", b"content-length: 3", b" folded", b"x-text: \xc3\xa9"),
)


def parse_response_arguments(chance: random.Random) -> Arguments:
    """An HTTP response of an engine."""
    body = b'{"a": "b"}' * chance.randint(0 if chance.random() < 0.1 else 1, 3)
    fields = [field for field in _FIELDS[:5] if chance.random() < 0.5]
    fields.append(chance.choice([b"content-length: %d", b"Content-Length: %d"]) % len(body))
    if chance.random() < 0.3:
        fields.append(chance.choice(_FIELDS))
    chance.shuffle(fields)
    usual = b"HTTP/1.1 200 OK"
    status = (
        usual
        if chance.random() < 0.8
        else chance.choice([b"HTTP/1.1 404 Not Found", b"HTTP/1.1 204 No", b"HTTP/1.0 200 OK", b"HTTP/1.1 200 "])
    )
    return (b"\r\n".join([status, *fields, b"", b""]) + body,)


_REQUEST_LINES = (
    *(b"POST / HTTP/1.1", b"GET /v1/models HTTP/1.1", b"POST /v1/x?a=b HTTP/1.1", b"POST /v1/%61 HTTP/1.1", b"POST * HTTP/1.1"),
    *(b"POST /v1/x HTTP/1.0", b"POST http://a/v1/x HTTP/1.1", b"POST  /v1/x HTTP/1.1", b"POST /v1/x HTTP/1.1 "),
)


def parse_request_arguments(chance: random.Random) -> Arguments:
    """An HTTP request of a caller."""
    ((response,),) = [parse_response_arguments(chance)]
    line, fields = response.split(b"\r\n", 1)
    line = b"POST /v1/chat/completions HTTP/1.1" if line.endswith(b"OK") else chance.choice(_REQUEST_LINES)
    added = [b"Host: a", *[field for field in (b"host: b", b"Expect: 100-continue", b"x" * 70 + b": a") if chance.random() < 0.05]]
    return (b"\r\n".join([line, *added, fields]),)


_MARKS = (
    *(b"0", b"1.5", b"2e300", b"7E-12", b"9e", b".e", b"0" * 299, b"0" * 300, b"31" * 450),
    *(b"{", b"[", b",", b'"a":', b" x", b"nx", b"nx1.", b"\xe9"),
)


def body_arguments(chance: random.Random) -> Arguments:
    """A body with numbers of all lengths, objects, arrays and carriers."""
    return (b"".join(chance.choices(_MARKS, k=chance.randint(0, 120))),)


def holds_arguments(chance: random.Random) -> Arguments:
    return (*body_arguments(chance), b"nx1.", chance.randint(0, 3))


# Those that return None for what they are not sure of.
UNSURE_FUNCTIONS = ("edit_chat", "parse_request", "parse_response", "relay")
FUNCTIONS: dict[str, Callable[[random.Random], Arguments]] = {
    "count_number_marks": body_arguments,
    "count_structure": body_arguments,
    "edit_chat": edit_chat_arguments,
    "holds": holds_arguments,
    "parse_request": parse_request_arguments,
    "parse_response": parse_response_arguments,
    "relay": relay_arguments,
}


def inputs(name: str, count: int, seed: int) -> Iterator[Arguments]:
    chance = random.Random(seed)
    for _ in range(count):
        arguments = FUNCTIONS[name](chance)
        yield mutated(chance, arguments) if chance.random() < 0.6 else arguments


def differences(native: ModuleType, name: str, count: int, seed: int) -> list[Arguments]:
    """The inputs for which the compiled function and its twin do not agree."""
    compiled, in_python = getattr(native, name), getattr(twin, name)
    return [each for each in inputs(name, count, seed) if _result(compiled, each) != _result(in_python, each)]


def _result(function: Callable[..., Any], arguments: Arguments) -> Any:
    try:
        return function(*arguments)
    except ValueError as fault:
        return str(fault)


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def grown_kib(native: ModuleType, name: str, count: int) -> int:
    """How much more memory the process has at most after so many calls, beyond a first tenth of them."""
    compiled, some = getattr(native, name), [*inputs(name, 500, 1)]
    peaks: list[int] = []
    for share in (count // 10, count):
        for number in range(share):
            _result(compiled, some[number % len(some)])
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peaks[1] - peaks[0]


if __name__ == "__main__":
    module, rounds, first_seed = load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for function in FUNCTIONS:
        if found := differences(module, function, rounds, first_seed):
            raise SystemExit(f"{function}{found[0]!r}: {len(found)} of {rounds} differ")
