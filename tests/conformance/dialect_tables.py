"""The tables of docs/dialects.md, made from what is tested (python -m tests.conformance.dialect_tables); a test compares the two."""

from collections.abc import Iterator, Mapping

import click
from msgspec import Struct

from tests.conformance.request_case import DropReported, Refused, RequestCase, Translated
from tests.conformance.request_cases import REQUEST_CASES
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, RESPONSES, SITUATIONS
from tests.conformance.stream_quirks import STREAM_QUIRKS

API_NAMES = {CHAT: "Chat", RESPONSES: "Responses", ANTHROPIC: "Messages"}
TRANSLATIONS = [(caller, target) for caller in ALL for target in ALL if caller != target]


class Feature(Struct, frozen=True):
    """Something that answers may hold. `shown_by`: the situations that test it. `told`: what callers get who cannot be told it so."""

    name: str
    situations: tuple[str, ...]
    translated_as: Mapping[str, str] = {}


FEATURES = (
    Feature("text, whole and streamed", ("text", "text in one piece", "text in many pieces", "empty answer")),
    Feature("one call", ("one call", "one call in one piece", "one call in many pieces", "arguments beyond ASCII", "huge arguments")),
    Feature("arguments cut anywhere", ("arguments cut within an escape", "arguments cut within a surrogate pair")),
    Feature("parallel calls", ("parallel calls", "two calls of one name with equal arguments")),
    Feature("parallel calls written in turns", ("parallel calls written in turns",), {ANTHROPIC: "carried, one after the other"}),
    Feature(
        "calls without arguments", ("call without arguments", "call with nothing for arguments", "first of two calls without arguments")
    ),
    Feature(
        "order of texts, calls and reasoning",
        ("call after text", "text after call", "text between calls", "reasoning between texts and calls"),
        {CHAT: "converted: by kind, as chat tells it; the order comes back with a seal"},
    ),
    Feature("forced call that finishes with `stop`", ("forced call that finishes with stop",), {ANTHROPIC: "converted: `tool_use`"}),
    Feature(
        "call cut off by length",
        ("call cut off by length",),
        {ANTHROPIC: "carried in a stream; whole, as `_unparsed`, for input must be an object"},
    ),
    Feature("calls of custom tools", ("custom tool",)),
    Feature("cut off by length", ("cut off by length", "context full"), {RESPONSES: "carried: `incomplete`"}),
    Feature("content filter", ("content filter",), {RESPONSES: "carried: `incomplete`", ANTHROPIC: "converted: stop reason `refusal`"}),
    Feature("refusal in its own part", ("refusal",), {ANTHROPIC: "converted: text, stop reason `refusal`"}),
    Feature(
        "refusal as a stop reason",
        ("refused by Anthropic's words", "refused before a word"),
        {CHAT: "converted: `content_filter`", RESPONSES: "converted: `incomplete`, `content_filter`"},
    ),
    Feature(
        "stop sequence, and which", ("stop sequence",), {CHAT: "carried: `stop_reason` beside `stop`", RESPONSES: "converted: `completed`"}
    ),
    Feature("a pause", ("paused",), {CHAT: "converted: `stop`", RESPONSES: "converted: `completed`"}),
    Feature(
        "reasoning in words",
        ("reasoning, then text", "reasoning, then text, then calls"),
        {ANTHROPIC: "carried, with a signature of ours", RESPONSES: "carried: `reasoning_text`"},
    ),
    Feature(
        "signed thinking (Anthropic's)",
        ("sealed reasoning", "sealed reasoning before a call", "sealed reasoning without words"),
        {CHAT: "carried: `reasoning_details`", RESPONSES: "carried: `encrypted_content`"},
    ),
    Feature(
        "redacted thinking (Anthropic's)",
        ("redacted reasoning", "redacted reasoning before a call"),
        {CHAT: "carried: `reasoning_details`", RESPONSES: "carried: `encrypted_content`"},
    ),
    Feature(
        "encrypted reasoning (OpenAI's)",
        ("encrypted reasoning", "encrypted reasoning without words"),
        {CHAT: "carried: `reasoning_details`", ANTHROPIC: "carried: the signature"},
    ),
    Feature(
        "signed call (Gemini's, over chat)",
        ("signed call",),
        {RESPONSES: "carried: a reasoning item beside it", ANTHROPIC: "carried: a `redacted_thinking` block before it"},
    ),
    Feature(
        "a tool that the host ran, and its result",
        ("a tool that Anthropic ran", "a tool that OpenAI ran"),
        {CHAT: "carried: `reasoning_details`", RESPONSES: "carried: `encrypted_content`", ANTHROPIC: "carried: `redacted_thinking`"},
    ),
    Feature("web page cited", tuple(f"a web page cited by {target}" for target in ALL)),
    Feature(
        "place in a document cited",
        ("a document cited",),
        {CHAT: "left out: it has no word for it", RESPONSES: "left out: it has no word for it"},
    ),
    Feature("logprobs", ("logprobs",), {ANTHROPIC: "never asked"}),
    Feature("usage, cached and reasoning tokens", ("usage with cached and reasoning tokens", "usage with tokens written to a cache")),
    Feature("usage that was not told", ("no usage",), {ANTHROPIC: "converted: zeros"}),
    Feature("several choices", ("several choices",)),
)


def tables() -> str:
    """Markdown."""
    return "\n\n".join(
        [
            "### Answers",
            *_response_tables(),
            "### Requests",
            *_request_tables(),
            "### What engines send although nobody documents it",
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
                row.append("never said")
            elif not any(caller in each.callers for each in situations):
                row.append("never asked")
            else:
                row.append(feature.translated_as.get(caller, "carried"))
        rows.append(row)
    yield _table("Answer", [[name, "as it came", *cells] for name, *cells in rows])


def _request_tables() -> Iterator[str]:
    groups: dict[str, list[RequestCase]] = {}
    for request_case in REQUEST_CASES:
        groups.setdefault(request_case.group, []).append(request_case)
    for group, cases_of_group in groups.items():
        rows = [
            [each.feature, _same_api_cell(each), *(_cell(each, caller, target) for caller, target in TRANSLATIONS)]
            for each in cases_of_group
        ]
        yield _table(f"Request: {group}", rows)


def _same_api_cell(request_case: RequestCase) -> str:
    """Of a caller and an engine that speak the same API."""
    (cell,) = {
        "as it came" if isinstance(request_case.outcome(each, each), Translated) else _cell(request_case, each, each)
        for each in request_case.request_fields
    }
    return cell


def _cell(request_case: RequestCase, caller: str, target: str) -> str:
    match request_case.outcome(caller, target):
        case None:
            return "never asked"
        case Refused(param):
            return f"refused (422): `{param}`"
        case DropReported(dropped):
            return "reported: " + ", ".join(f"`{each}`" for each in dropped)
        case Translated(_, converted, dropped):
            cell = f"converted: {converted}" if converted else "carried"
            return cell + (f"; reported: {', '.join(f'`{each}`' for each in dropped)}" if dropped else "")


def _quirks_table() -> str:
    lines = ["| Engine's API | What it sends | Callers of other APIs | Callers of the same API |", "|---|---|---|---|"]
    for odd in STREAM_QUIRKS:
        same = "the same" if odd.repaired else "as it came"
        lines.append(f"| {API_NAMES[odd.target]} | {odd.situation.name} | as documented | {same} |")
    return "\n".join(lines)


def _table(first: str, rows: list[list[str]]) -> str:
    heads = [first, "same API", *(f"{API_NAMES[caller]} → {API_NAMES[target]}" for caller, target in TRANSLATIONS)]
    return "\n".join(_table_row(each) for each in [heads, ["---"] * len(heads), *rows])


def _table_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    click.echo(tables())
