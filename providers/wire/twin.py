"""The functions of native.c in Python: what runs without it, and what it is held against. See providers/wire/__init__.py."""

import json
import re

MOST_BYTES = 32_768
MOST_EVENTS = 128
MOST_ANSWER_BYTES = 65_536
MOST_HEAD_BYTES = 16_384
MOST_FIELDS = 64
MOST_BODY_BYTES = 1_048_576

_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,5})\r\n").match
_STRING = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+"'
_NULL = rb'"(?!(?:%b)")[a-z_]{1,40}": ?null'
_DELTA = rb'"(?:content|reasoning_content|refusal)": ?%b|%b' % (_STRING, _NULL % b"text|reasoning|reasoning_details")
_INDEX = rb'"index": ?(?:0|[1-9][0-9]{0,3})'
_OTHER = _NULL % b"index|delta|text|error|reasoning|reasoning_details"


def _choices_pattern(content: bytes) -> re.Pattern[bytes]:
    """The choices of a chunk: one, with an index and this content, each once, and other members that are null."""
    member = rb"(?:%b|%b)" % (content, _OTHER)
    return re.compile(rb" ?\[\{(?:%b, ?)*+%b(?:, ?%b)*+\}\]" % (member, _INDEX, member))


_is_plain_chat = _choices_pattern(rb'"delta": ?\{(?:(?:%b)(?:, ?(?:%b))*+)?\}' % (_DELTA, _DELTA)).fullmatch
_is_plain_completion = _choices_pattern(rb'"text": ?%b' % _STRING).fullmatch
_written_texts = re.compile(rb'"(?:content|reasoning_content|refusal|text)": ?(%b)' % _STRING).findall


_PLAIN = rb"[ !#-\[\]-~]{1,198}"
_COUNT = rb"(?:0|[1-9][0-9]{0,%d})"
_COMPACT_NULL = rb'"(?!(?:%b)")[a-z_]{1,40}":null'


def _members(*alternatives: bytes) -> bytes:
    # Without possessive repeats: around groups that capture, Python 3.11 fails for some texts.
    return rb"\{(?:(?:%b)(?:,(?=\")|(?=\})))+\}" % b"|".join(alternatives)


_MESSAGE = _members(
    rb'"role":"assistant"',
    rb'"(?:content|reasoning_content|refusal)":%b' % _STRING,
    rb'"(?:tool_calls|annotations)":\[\]',
    _COMPACT_NULL % b"role|text|delta|reasoning|reasoning_details",
)
_CHOICE = _members(
    rb'"index":%b' % (_COUNT % 3),
    rb'"message":%b' % _MESSAGE,
    rb'"finish_reason":"(?P<reason>stop|length)"',
    _COMPACT_NULL % b"index|message|finish_reason|text|delta|error|reasoning|reasoning_details",
)
_USAGE = _members(
    rb'"prompt_tokens":(?P<input>%b)' % (_COUNT % 8),
    rb'"completion_tokens":(?P<output>%b)' % (_COUNT % 8),
    rb'"total_tokens":%b' % (_COUNT % 8),
    rb'"(?:prompt|completion)_tokens_details":null',
)
_read_answer = re.compile(
    _members(
        rb'"id":"(?P<id>%b)"' % _PLAIN,
        rb'"object":"chat\.completion"',
        rb'"created":%b' % (_COUNT % 11),
        rb'"model":"(?P<model>%b)"' % _PLAIN,
        rb'"choices":\[%b\]' % _CHOICE,
        rb'"usage":%b' % _USAGE,
        rb'"service_tier":null',
        rb'"system_fingerprint":(?:(?P<fingerprint>null)|"%b")' % _PLAIN,
        rb'"(?:prompt_logprobs|prompt_token_ids|kv_transfer_params)":null',  # vLLM's
    )
).fullmatch
# No string of JSON holds one of these: its quotes would be escaped.
_ONCE = (
    *(b'"id":', b'"object":', b'"created":', b'"model":', b'"choices":', b'"usage":', b'"index":', b'"message":'),
    *(b'"finish_reason":', b'"prompt_tokens":', b'"completion_tokens":', b'"total_tokens":'),
)
_NULLS = (b'"prompt_logprobs":', b'"prompt_token_ids":', b'"kv_transfer_params":')
_ONES = [1] * len(_ONCE)
_is_count = re.compile(_COUNT % 6).fullmatch
_is_plain = re.compile(_PLAIN.decode()).fullmatch


def edit_chat(raw: bytes, id: str, episode_id: str, model: str) -> tuple[bytes, int, int, str, str] | None:
    if len(raw) > MOST_ANSWER_BYTES or not (_is_plain(id) and _is_plain(episode_id) and _is_plain(model)):
        return None
    answer = _read_answer(raw)
    if answer is None or [raw.count(key) for key in _ONCE] != _ONES:
        return None
    tiers, fingerprints = raw.count(b'"service_tier":'), raw.count(b'"system_fingerprint":')
    input, output = int(answer["input"]), int(answer["output"])
    if max(tiers, fingerprints, *[raw.count(key) for key in _NULLS]) > 1 or not (input or output):
        return None
    if (b"\\u" in raw or not raw.isascii()) and _written_bytes(raw) is None:
        return None
    edits = [(*answer.span("id"), id.encode()), (*answer.span("model"), model.encode()), (*answer.span("fingerprint"), b'""')]
    pieces, start = list[bytes](), 0
    for begin, end, replaced in sorted(edits):
        if begin >= 0:
            pieces += (raw[start:begin], replaced)
            start = end
    pieces += (raw[start:-1], b',"episode_id":"', episode_id.encode(), b'"')
    if not fingerprints:
        pieces.append(b',"system_fingerprint":""')
    if not tiers:
        pieces.append(b',"service_tier":null')
    pieces.append(b"}")
    return b"".join(pieces), input, output, answer["reason"].decode(), answer["model"].decode()


def relay(data: bytes, rest: bytes, before: bytes, after: bytes, prefix: bytes, is_chat: bool) -> tuple[bytes, bytes, bytes, int] | None:
    if max(len(data), len(rest), len(before), len(after), len(prefix)) > MOST_BYTES:
        return None
    content = _read_chunks(data)
    if content is None:
        return None
    *events, rest = (rest + content).split(b"\n\n")
    if len(events) > MOST_EVENTS or b"\n" in rest or b"\r" in rest:
        return None
    written, frames = 0, list[bytes]()
    before, is_plain, key = b"data: " + before, *((_is_plain_chat, b'"delta":') if is_chat else (_is_plain_completion, b'"text":'))
    for event in events:
        choices = event[len(before) : len(event) - len(after)]
        if len(event) < len(before) + len(after) or not (event.startswith(before) and event.endswith(after)):
            return None
        if is_plain(choices) is None or choices.count(key) != 1:
            return None
        size = _written_bytes(choices)
        if size is None:
            return None
        written += size
        frames += (prefix, choices, b"}\n\n")
    sent = b"".join(frames)
    return b"%x\r\n%b\r\n" % (len(sent), sent) if sent else b"", sent, rest, written


def _read_chunks(data: bytes) -> bytes | None:
    """The content of the HTTP chunks that `data` consists of."""
    contents, start = list[bytes](), 0
    while start < len(data):
        size = _CHUNK_SIZE(data, start)
        if size is None:
            return None
        start = size.end()
        end = start + int(size[1], 16)
        if end == start or data[end : end + 2] != b"\r\n":
            return None
        contents.append(data[start:end])
        start = end + 2
    return contents[0] if len(contents) == 1 else b"".join(contents)


def _written_bytes(choices: bytes) -> int | None:
    """How long the texts of choices are in UTF-8, unescaped, or None if they are no texts."""
    if not choices.isascii():
        try:
            choices.decode()
        except UnicodeDecodeError:
            return None
    written = 0
    for quoted in _written_texts(choices):
        if b"\\" not in quoted:
            written += len(quoted) - 2
            continue
        try:
            written += len(json.loads(quoted).encode())
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
    return written


_FIELD = rb"[A-Za-z0-9_-]+: [!-~](?:[ -~]*[!-~])?\r\n"
_read_head = re.compile(rb"HTTP/1\.1 ([2-5][0-9]{2}) ([A-Za-z ]+)\r\n((?:%b)*)\r\n" % _FIELD).match
_fields = re.compile(rb"([A-Za-z0-9_-]+): ([^\r]+)\r\n").findall


def parse_response(data: bytes) -> tuple[int, bytes, list[tuple[bytes, bytes]], bytes] | None:
    head = _read_head(data, 0, MOST_HEAD_BYTES)
    if head is None:
        return None
    status, fields = int(head[1]), _fields(head[3])
    if status in (204, 304) or len(fields) > MOST_FIELDS:
        return None
    length = 0
    for name, value in fields:
        match name.lower():
            case b"content-length" if not length and _is_count(value):
                length = int(value)
            case b"connection" if value.lower() == b"keep-alive":
                pass
            case b"content-length" | b"connection" | b"transfer-encoding" | b"upgrade":
                return None
            case _:
                pass
    body = data[head.end() :]
    return (status, head[2], fields, body) if 0 < length == len(body) <= MOST_BODY_BYTES else None


_REQUEST_FIELD = rb"[A-Za-z0-9_-]{1,64}: [!-~](?:[ -~]*[!-~])?\r\n"
_read_request_head = re.compile(rb"POST (/[A-Za-z0-9_/.-]*) HTTP/1\.1\r\n((?:%b)*)\r\n" % _REQUEST_FIELD).match


def parse_request(data: bytes) -> tuple[str, list[tuple[bytes, bytes]], bytes] | None:
    head = _read_request_head(data, 0, MOST_HEAD_BYTES)
    if head is None:
        return None
    fields = [(name.lower(), value) for name, value in _fields(head[2])]
    if len(fields) > MOST_FIELDS:
        return None
    length = hosts = 0
    for name, value in fields:
        match name:
            case b"host":
                hosts += 1
            case b"content-length" if not length and _is_count(value):
                length = int(value)
            case b"connection" if value.lower() == b"keep-alive":
                pass
            case b"content-length" | b"connection" | b"transfer-encoding" | b"upgrade" | b"expect":
                return None
            case _:
                pass
    body = data[head.end() :]
    return (head[1].decode(), fields, body) if hosts == 1 and 0 < length == len(body) <= MOST_BODY_BYTES else None


# The digits of each number become zeros, with its decimal point, and its exponent has one spelling.
_KEPT = {**dict.fromkeys(b"0123456789.", 48), **dict.fromkeys(b"eE", 101), **{sign: sign for sign in b"+-"}}
NUMBER_MARKS = bytes(_KEPT.get(byte, 32) for byte in range(256))
EXPONENT = b"0e"
MANY_DIGITS = b"0" * 300


def count_structure(raw: bytes) -> tuple[int, int]:
    return raw.count(b"{") + raw.count(b"["), raw.count(b",")


def count_number_marks(raw: bytes) -> int:
    marks = raw.translate(NUMBER_MARKS)
    return marks.count(EXPONENT) + marks.count(MANY_DIGITS)


def holds(raw: bytes, part: bytes, rarest: int) -> bool:
    if not 0 <= rarest < len(part):
        raise ValueError("holds() takes the place of a byte of the part")
    return part in raw
