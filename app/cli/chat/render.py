"""How a response is shown: its text on standard output, reasoning and numbers dimmed on standard error."""

import sys
from typing import assert_never

import click

from app.cli.chat.chat_result import ChatResult
from app.cli.output import printable
from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported


class AnswerRenderer:
    """Prints one response: on_event() with each event, then finish(). `narthex chat ... > file` holds the response and nothing else."""

    def __init__(self) -> None:
        self.text = ""  # what has arrived so far; a conversation continues from it if the response is stopped
        self._part: Part | None = None
        self._at_line_start = True

    def on_event(self, event: Event) -> None:
        match event:
            case PartStarted():
                self._start_part(event.part)
            case PartDelta():
                self._print(event.text)
            case ResponseStarted() | PartFinished() | Logprobs() | ChoiceFinished() | UsageReported():
                pass
            case _:
                assert_never(event)

    def finish(self) -> None:
        """Ends the last line, also of a response that was cut off."""
        self._end_part()
        sys.stdout.flush()

    def _start_part(self, part: Part) -> None:
        self._end_part()
        self._part = part
        match part:
            case ToolCall():
                self._print(f"→ {part.name}({part.arguments}")
            case Refusal():
                self._print("Refused: " + part.text)
            case Text() | Reasoning():
                self._print(part.text)
            case Opaque():
                pass  # not readable
            case _:
                assert_never(part)

    def _print(self, text: str) -> None:
        if not text:
            return
        if isinstance(self._part, Text):
            self.text += text
        is_reasoning = isinstance(self._part, Reasoning)
        # A file gets the response unchanged; on a terminal its control characters are masked.
        shown = printable(text) if is_reasoning or sys.stdout.isatty() else text
        self._at_line_start = shown.endswith("\n")
        match self._part:
            case Reasoning():
                click.secho(shown, nl=False, dim=True, err=True)
            case ToolCall():
                click.secho(shown, nl=False, fg="cyan")
            case Refusal():
                click.secho(shown, nl=False, fg="yellow")
            case _:
                sys.stdout.write(shown)  # not click.echo, which would strip escape codes that are part of the response
        (sys.stderr if is_reasoning else sys.stdout).flush()

    def _end_part(self) -> None:
        if isinstance(self._part, ToolCall):
            self._print(")")
        if self._part is not None and not self._at_line_start:
            click.echo(err=isinstance(self._part, Reasoning))
        self._part, self._at_line_start = None, True


def print_summary(result: ChatResult) -> None:
    """Prints one line with tokens, times and the serving provider on standard error; above it, what is easily overlooked."""
    if result.finish_reason == "length":
        click.secho("Cut off: the response reached its maximum of tokens (--max-tokens, or the model's own).", fg="yellow", err=True)
    elif result.finish_reason == "content_filter":
        click.secho("Cut off by the provider's content filter.", fg="yellow", err=True)
    if not result.parts:
        click.secho("The response is empty.", fg="yellow", err=True)
    if result.dropped:
        click.secho(f"Not supported, and dropped: {', '.join(result.dropped)}.", fg="yellow", err=True)
    facts = [_usage_text(result), _timing_text(result)]
    if result.served:
        facts.append(f"served by {printable(result.served)}")
    if result.inference_id:
        facts.append(f"inference {result.inference_id}")
    click.secho(" · ".join(facts), dim=True, err=True)


def _usage_text(result: ChatResult) -> str:
    usage = result.usage
    if usage is None or (usage.input is None and usage.output is None):
        return "tokens not reported"
    more = [f"{number} {label}" for number, label in ((usage.reasoning, "reasoning"), (usage.cached, "cached")) if number]
    return f"{_format_number(usage.input)} tokens in, {_format_number(usage.output)} out" + (f" ({', '.join(more)})" if more else "")


def _format_number(tokens: int | None) -> str:
    return "?" if tokens is None else str(tokens)


def _timing_text(result: ChatResult) -> str:
    total = f"{result.duration_s:.2f} s"
    return total if result.first_token_s is None else f"first token after {result.first_token_s:.2f} s, {total} in all"
