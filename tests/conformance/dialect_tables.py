"""The tables of docs/dialects.md, generated from the test cases: `python -m tests.conformance.dialect_tables` prints them.

test_dialect_tables.py compares them with the page.
"""

from collections.abc import Iterator, Mapping

import click
from msgspec import Struct

from tests.conformance.request_case import DropReported, Refused, RequestCase, Translated
from tests.conformance.request_cases import REQUEST_CASES
from tests.conformance.situations import ALL, ANTHROPIC, CALLER_APIS, CHAT, GEMINI, RESPONSES, SITUATIONS
from tests.conformance.stream_quirks import STREAM_QUIRKS

NOT_IN_CALLERS_API = "not in the caller's API"
NOT_IN_ENGINES_API = "not in the engine's API"
UNCHANGED = "unchanged"

API_NAMES = {CHAT: "Chat", RESPONSES: "Responses", ANTHROPIC: "Messages", GEMINI: "Gemini"}
TRANSLATIONS = [(caller, target) for caller in CALLER_APIS for target in ALL if caller != target]


class Feature(Struct, frozen=True):
    """A row of the table of responses. `situations`: those that test it. `translated_as`: what callers get whose API lacks it."""

    name: str
    situations: tuple[str, ...]
    translated_as: Mapping[str, str] = {}


_SIGNATURE = "carried: `thoughtSignature`, and that of the next call"

FEATURES = (
    Feature("text, streamed or not", ("text", "text in one piece", "text in many pieces", "empty response")),
    Feature("one call", ("one call", "one call in one piece", "one call in many pieces", "arguments beyond ASCII", "huge arguments")),
    Feature("arguments cut anywhere", ("arguments cut within an escape", "arguments cut within a surrogate pair")),
    Feature("parallel calls", ("parallel calls", "two calls of one name with equal arguments")),
    Feature(
        "interleaved parallel calls", ("interleaved parallel calls",), dict.fromkeys((ANTHROPIC, GEMINI), "carried, one after the other")
    ),
    Feature("calls without arguments", ("call without arguments", "call with empty arguments", "first of two calls without arguments")),
    Feature(
        "order of texts, calls and reasoning",
        ("call after text", "text after call", "text between calls", "reasoning between texts and calls"),
        {CHAT: "converted: sorted by kind, as Chat has no order; the order returns with signed parts"},
    ),
    Feature("forced call that finishes with `stop`", ("forced call that finishes with stop",), {ANTHROPIC: "converted: `tool_use`"}),
    Feature(
        "call truncated by length",
        ("call truncated by length",),
        {
            ANTHROPIC: "carried in a stream; else as `_unparsed`, because `input` must be an object",
            GEMINI: "carried as `_unparsed`, because `args` must be an object",
        },
    ),
    Feature("calls of custom tools", ("custom tool",)),
    Feature("truncated by length", ("truncated by length", "context window exceeded"), {RESPONSES: "carried: `incomplete`"}),
    Feature(
        "content filter",
        ("content filter",),
        {RESPONSES: "carried: `incomplete`", ANTHROPIC: "converted: stop reason `refusal`", GEMINI: "converted: `SAFETY`"},
    ),
    Feature(
        "refusal in its own part", ("refusal",), {ANTHROPIC: "converted: text, stop reason `refusal`", GEMINI: "converted: text, `SAFETY`"}
    ),
    Feature(
        "refusal as a stop reason",
        ("refusal as a stop reason", "refusal before any text"),
        {CHAT: "converted: `content_filter`", RESPONSES: "converted: `incomplete`, `content_filter`", GEMINI: "converted: `SAFETY`"},
    ),
    Feature(
        "which stop sequence matched",
        ("stop sequence",),
        {CHAT: "carried: `stop_reason` beside `stop`", RESPONSES: "converted: `completed`", GEMINI: "converted: `STOP`"},
    ),
    Feature(
        "pause (`pause_turn`)", ("pause",), {CHAT: "converted: `stop`", RESPONSES: "converted: `completed`", GEMINI: "converted: `STOP`"}
    ),
    Feature(
        "reasoning as text",
        ("reasoning, then text", "reasoning, then text, then calls"),
        {
            ANTHROPIC: "carried, with a placeholder signature",
            RESPONSES: "carried: `reasoning_text`",
            GEMINI: "carried, if the caller includes thoughts",
        },
    ),
    Feature(
        "signed thinking (Anthropic's)",
        ("signed thinking", "signed thinking before a call", "signed thinking without text"),
        {CHAT: "carried: `reasoning_details`", RESPONSES: "carried: `encrypted_content`", GEMINI: _SIGNATURE},
    ),
    Feature(
        "redacted thinking (Anthropic's)",
        ("redacted thinking", "redacted thinking before a call"),
        {CHAT: "carried: `reasoning_details`", RESPONSES: "carried: `encrypted_content`", GEMINI: _SIGNATURE},
    ),
    Feature(
        "encrypted reasoning (OpenAI's)",
        ("encrypted reasoning", "encrypted reasoning without text"),
        {CHAT: "carried: `reasoning_details`", ANTHROPIC: "carried: the signature", GEMINI: _SIGNATURE},
    ),
    Feature(
        "signed call (Gemini's, over chat)",
        ("signed call",),
        {RESPONSES: "carried: a reasoning item next to it", ANTHROPIC: "carried: a `redacted_thinking` block before it"},
    ),
    Feature(
        "a tool run by the host, and its result",
        ("a tool run by Anthropic", "a tool run by OpenAI"),
        {
            CHAT: "carried: `reasoning_details`",
            RESPONSES: "carried: `encrypted_content`",
            ANTHROPIC: "carried: `redacted_thinking`",
            GEMINI: _SIGNATURE,
        },
    ),
    Feature("citation of a web page", tuple(f"a web page cited by {target}" for target in ALL), {GEMINI: "carried: `groundingMetadata`"}),
    Feature(
        "citation of a document",
        ("a document cited",),
        {
            CHAT: "dropped: the API has no field for it",
            RESPONSES: "dropped: the API has no field for it",
            GEMINI: "carried: `groundingMetadata`",
        },
    ),
    Feature("logprobs", ("logprobs",), {ANTHROPIC: NOT_IN_CALLERS_API}),
    Feature(
        "usage, cached and reasoning tokens",
        ("usage with cached and reasoning tokens", "usage with tokens written to a cache"),
        {GEMINI: "carried, but for what was written to a cache"},
    ),
    Feature(
        "usage not reported",
        ("no usage",),
        {**dict.fromkeys((CHAT, RESPONSES, ANTHROPIC), "converted: an estimate, marked"), GEMINI: "converted: an estimate"},
    ),
    Feature("several choices", ("several choices",)),
)


def tables() -> str:
    """All tables, as Markdown."""
    return "\n\n".join(
        [
            "### Responses",
            *_response_tables(),
            "### Requests",
            *_request_tables(),
            "### Undocumented streams of engines",
            _quirks_table(),
        ]
    )


def _response_tables() -> Iterator[str]:
    known = {each.name: each for each in SITUATIONS}
    rows: list[list[str]] = []
    for feature in FEATURES:
        situations = [known[name] for name in feature.situations]
        row = [feature.name]
        for caller, target in TRANSLATIONS:
            if not any(target in each.targets for each in situations):
                row.append(NOT_IN_ENGINES_API)
            elif not any(caller in each.callers for each in situations):
                row.append(NOT_IN_CALLERS_API)
            else:
                row.append(feature.translated_as.get(caller, "carried"))
        rows.append(row)
    yield _table("Response", [[name, UNCHANGED, *cells] for name, *cells in rows])


def _request_tables() -> Iterator[str]:
    groups: dict[str, list[RequestCase]] = {}
    for request_case in REQUEST_CASES:
        groups.setdefault(request_case.group, []).append(request_case)
    for group, group_cases in groups.items():
        rows = [
            [each.feature, _same_api_cell(each), *(_cell(each, caller, target) for caller, target in TRANSLATIONS)] for each in group_cases
        ]
        yield _table(f"Request: {group}", rows)


def _same_api_cell(request_case: RequestCase) -> str:
    """The cell of a caller and an engine that speak the same API."""
    (cell,) = {
        UNCHANGED if isinstance(request_case.outcome(each, each), Translated) else _cell(request_case, each, each)
        for each in request_case.request_fields
    }
    return cell


def _cell(request_case: RequestCase, caller: str, target: str) -> str:
    match request_case.outcome(caller, target):
        case None:
            return NOT_IN_CALLERS_API
        case Refused(param):
            return f"refused (422): `{param}`"
        case DropReported(dropped):
            return "reported: " + ", ".join(f"`{each}`" for each in dropped)
        case Translated(_, converted, dropped):
            cell = f"converted: {converted}" if converted else "carried"
            return cell + (f"; reported: {', '.join(f'`{each}`' for each in dropped)}" if dropped else "")


def _quirks_table() -> str:
    lines = ["| Engine's API | What it sends | Callers of other APIs | Callers of the same API |", "|---|---|---|---|"]
    for quirk in STREAM_QUIRKS:
        same = "as documented" if quirk.repaired else UNCHANGED
        lines.append(f"| {API_NAMES[quirk.target]} | {quirk.situation.name} | as documented | {same} |")
    return "\n".join(lines)


def _table(first: str, rows: list[list[str]]) -> str:
    heads = [first, "same API", *(f"{API_NAMES[caller]} → {API_NAMES[target]}" for caller, target in TRANSLATIONS)]
    return "\n".join(_table_row(each) for each in [heads, ["---"] * len(heads), *rows])


def _table_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    click.echo(tables())
