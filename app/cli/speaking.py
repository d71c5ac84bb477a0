"""An answer as a person sees it: the text on standard output, all that is about it (reasoning, numbers) dimmed on standard error."""

import sys
from typing import assert_never

import click

from app.cli.conversation import Answered
from app.cli.telling import printable
from providers.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started


class Speaker:
    """Told each event of one answer, then end(). So `narthex chat ... > file` holds what was answered and nothing else.

    `text`: what was answered so far, for a conversation goes on from an answer that was stopped too.
    """

    def __init__(self) -> None:
        self.text = ""
        self._part: Part | None = None
        self._at_line_start = True

    def hear(self, event: Event) -> None:
        match event:
            case Opened():
                self._open(event.part)
            case Delta():
                self._say(event.text)
            case Started() | Closed() | Logprobs() | Finished() | Counted():
                pass
            case _:
                assert_never(event)

    def end(self) -> None:
        """The last line is ended, also of an answer that broke off."""
        self._close()
        sys.stdout.flush()

    def _open(self, part: Part) -> None:
        self._close()
        self._part = part
        match part:
            case ToolCall():
                self._say(f"→ {part.name}({part.arguments}")
            case Refusal():
                self._say("Refused: " + part.text)
            case Text() | Reasoning():
                self._say(part.text)
            case Opaque():
                pass  # nothing that a person can read
            case _:
                assert_never(part)

    def _say(self, text: str) -> None:
        if not text:
            return
        if isinstance(self._part, Text):
            self.text += text
        is_about = isinstance(self._part, Reasoning)
        # A file gets the answer's own bytes; a terminal must not be moved about by them.
        said = printable(text) if is_about or sys.stdout.isatty() else text
        self._at_line_start = said.endswith("\n")
        match self._part:
            case Reasoning():
                click.secho(said, nl=False, dim=True, err=True)
            case ToolCall():
                click.secho(said, nl=False, fg="cyan")
            case Refusal():
                click.secho(said, nl=False, fg="yellow")
            case _:
                sys.stdout.write(said)  # click would take escape codes out, and these are the answer's own
        (sys.stderr if is_about else sys.stdout).flush()

    def _close(self) -> None:
        if isinstance(self._part, ToolCall):
            self._say(")")
        if self._part is not None and not self._at_line_start:
            click.echo(err=isinstance(self._part, Reasoning))
        self._part, self._at_line_start = None, True


def tell_about(answer: Answered) -> None:
    """One line on what it cost and who served it, on standard error; before it, what the caller would not notice otherwise."""
    if answer.finish_reason == "length":
        click.secho("Cut off: the answer reached its most tokens (--max-tokens, or the model's own bound).", fg="yellow", err=True)
    elif answer.finish_reason == "content_filter":
        click.secho("Cut off by the provider's content filter.", fg="yellow", err=True)
    if not answer.parts:
        click.secho("The answer is empty.", fg="yellow", err=True)
    if answer.dropped:
        click.secho(f"Not honoured, and left out: {', '.join(answer.dropped)}.", fg="yellow", err=True)
    facts = [_tokens(answer), _times(answer)]
    if answer.served:
        facts.append(f"served by {printable(answer.served)}")
    if answer.inference_id:
        facts.append(f"inference {answer.inference_id}")
    click.secho(" · ".join(facts), dim=True, err=True)


def _tokens(answer: Answered) -> str:
    usage = answer.usage
    if usage is None or (usage.input is None and usage.output is None):
        return "tokens not told"
    more = [f"{number} {what}" for number, what in ((usage.reasoning, "reasoning"), (usage.cached, "cached")) if number]
    return f"{_number(usage.input)} tokens in, {_number(usage.output)} out" + (f" ({', '.join(more)})" if more else "")


def _number(tokens: int | None) -> str:
    return "?" if tokens is None else str(tokens)


def _times(answer: Answered) -> str:
    whole = f"{answer.duration_s:.2f} s"
    return whole if answer.first_token_s is None else f"first token after {answer.first_token_s:.2f} s, {whole} in all"
