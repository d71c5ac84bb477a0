"""Requests and their messages, as people read them."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from app.cli.output import printable

_INDENT = "    "


def inference(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Prints an inference: what it was and came to, why, its attempts, and its messages."""
    for line in _describe(document):
        click.echo(printable(line))
    content = document["content"]
    if content is None:
        click.echo("\nYour roles do not show what was written." if document["content_hidden"] else "\nWhat was written is not kept.")
        return
    if document["messages"] is not None:
        for line in describe_messages(document["messages"]):
            click.echo(printable(line))
    for name in ("request", "response"):
        if content[name] is not None:
            click.echo(printable(f"\n{name}, as it was sent:\n{content[name]}"))


def _describe(inference: Mapping[str, Any]) -> Iterator[str]:
    cost = "unknown cost" if inference["cost_microusd"] is None else f"${inference['cost_microusd'] / 1_000_000:.6f}"
    tokens = f"{inference['input_tokens'] or 0:,} → {inference['output_tokens'] or 0:,} tokens"
    ended = inference["error"] or inference["finish_reason"] or inference["outcome"]
    yield f"{inference['id']}  {inference['received_at'][:19].replace('T', ' ')} UTC  team {inference['team']}"
    yield f"{inference['model']}  {inference['status']} {ended}  {inference['duration_us'] / 1_000_000:.3f} s  {tokens}  {cost}"
    for reason in inference["why"]:
        yield f"  {reason['sentence']}"
    for attempt in inference["made_attempts"]:
        took = "" if attempt["duration_us"] is None else f"{attempt['duration_us'] / 1_000_000:.3f} s  "
        failure = " ".join(str(attempt[name]) for name in ("status", "error", "code") if attempt[name])
        yield f"  {attempt['provider']}/{attempt['served_model']}  {took}{'served' if attempt['error'] is None else failure}"


def describe_messages(messages: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of messages as REST has them: of the request, and then of the response."""
    if messages["previous_response_id"]:
        yield f"\n(goes on from response {messages['previous_response_id']})"
    if messages["omitted"]:
        yield f"\n({messages['omitted']:,} earlier messages)"
    for message in (*messages["input"], *messages["output"]):
        name = f" ({message['name']})" if message["name"] else ""
        ended = f"  [{message['finish_reason']}]" if message["finish_reason"] else ""
        yield f"\n{message['role']}{name}:{ended}"
        for part in message["parts"]:
            yield from _indented(_describe_part(part))
    for problem in messages["problems"]:
        yield f"\n{problem}"


def _describe_part(part: Mapping[str, Any]) -> str:
    match part["kind"]:
        case "tool_call":
            return f"→ {part['name']}({_cut(part, 'arguments')})"
        case "tool_result":
            result = "\n".join(_describe_part(each) for each in part["parts"])
            return f"← {'error: ' if part['error'] else ''}{result}"
        case "reasoning":
            return "(reasoning, encrypted)" if part["hidden"] else f"(reasoning) {_cut(part, 'text')}"
        case "refusal":
            return f"(refusal) {_cut(part, 'text')}"
        case "media":
            where = part["url"] or part["name"] or ("" if part["number"] is None else f"number {part['number']} of `narthex records media`")
            return f"[{' '.join(filter(None, (part['media'], part['media_type'], where)))}]"
        case "other":
            return _cut(part, "json")
        case _:
            return _cut(part, "text")


def _cut(part: Mapping[str, Any], field: str) -> str:
    text, characters = part[field], part["characters"]
    return text if len(text) >= characters else f"{text}… ({characters:,} characters)"


def _indented(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield f"{_INDENT}{line}"
