"""An episode as a timeline, as people read it."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from app.cli.output import pluralize, printable
from app.cli.renderers.assigned_arms import experiment_text, variant_text
from app.cli.renderers.messages import describe_messages

_BAR_WIDTH = 30
_TARGET_WIDTH = 36


def timeline(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    for line in _draw(document):
        click.echo(printable(line))
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows them.", err=True)


def _draw(timeline: Mapping[str, Any]) -> Iterator[str]:
    totals = timeline["totals"]
    cost = f"${totals['cost_microusd'] / 1_000_000:.6f}" + (f" and {totals['unpriced']} of unknown cost" if totals["unpriced"] else "")
    name = "" if timeline["name"] is None else f" ({timeline['name']})"
    whose = f"{name} of {timeline['team'] or timeline['team_id']}"
    yield f"Episode {timeline['id']}{whose}, from {_time(timeline['began_at'])} to {_time(timeline['ended_at'])}"
    yield (
        f"{pluralize(totals['inferences'], 'request')} ({totals['failed']} not answered), {pluralize(totals['attempts'], 'attempt')},"
        f" {totals['input_tokens']:,} tokens in, {totals['output_tokens']:,} out, {cost}"
    )
    for each in timeline["inferences"]:
        yield ""
        yield from _draw_inference(each)


def _draw_inference(inference: Mapping[str, Any]) -> Iterator[str]:
    facts = [f"{inference['status']}", inference["error"] or inference["finish_reason"] or inference["outcome"]]
    if inference["input_tokens"] is not None or inference["output_tokens"] is not None:
        facts.append(f"{inference['input_tokens'] or 0:,} → {inference['output_tokens'] or 0:,} tokens")
    if inference["cost_microusd"] is not None:
        facts.append(f"${inference['cost_microusd'] / 1_000_000:.6f}")
    variant = variant_text(inference["variant"], inference["served_variant"])
    model = f"{inference['model']}  {variant}" if variant else inference["model"]
    if inference["experiment"] is not None:
        why = "" if inference["not_enrolled"] is None else f" (not enrolled: {inference['not_enrolled']})"
        model += f"  {experiment_text(inference['experiment'], inference['experiment_version'])}{why}"
    yield f"+{_seconds(inference['offset_us'])}  {model}  {_seconds(inference['duration_us'])}  {', '.join(facts)}  {inference['id']}"
    for attempt in inference["attempts"]:
        yield f"  {_bar(attempt, inference['duration_us'])} {_describe_attempt(attempt)}"
    for call in inference["tool_calls"] or ():
        yield f"  → {call['name']}({call['arguments']})".replace("\n", " ")
    if inference["messages"] is not None:
        yield from (f"  {line}" for text in describe_messages(inference["messages"]) for line in text.split("\n"))


def _describe_attempt(attempt: Mapping[str, Any]) -> str:
    target = f"{attempt['provider']}/{attempt['served_model']}"
    began = "" if attempt["started_us"] is None else f"+{_seconds(attempt['started_us'])}"
    took = "" if attempt["duration_us"] is None else _seconds(attempt["duration_us"])
    failure = " ".join(str(attempt[name]) for name in ("status", "error", "code") if attempt[name])
    ended = "served" if attempt["error"] is None else failure
    reason = "" if attempt["reason"] == "first" else f" ({attempt['reason']})"
    return f"{target:{_TARGET_WIDTH}} {began:>10} {took:>10}  {ended}{reason}"


def _bar(attempt: Mapping[str, Any], total_us: int) -> str:
    """Draws when an attempt ran, on the scale of the request. One whose start is not recorded fills its end."""
    took_us = min(total_us, total_us if attempt["duration_us"] is None else attempt["duration_us"])
    began_us = total_us - took_us if attempt["started_us"] is None else min(attempt["started_us"], total_us)
    scale = _BAR_WIDTH / max(1, total_us)
    begin = min(_BAR_WIDTH - 1, int(began_us * scale))
    length = max(1, min(_BAR_WIDTH - begin, round(took_us * scale)))
    return "▕" + " " * begin + ("█" if attempt["error"] is None else "░") * length + " " * (_BAR_WIDTH - begin - length) + "▏"


def _seconds(microseconds: int) -> str:
    return f"{microseconds / 1_000_000:.3f} s"


def _time(iso: str) -> str:
    return f"{iso[:19].replace('T', ' ')} UTC"
