"""narthex chat: one question, or a conversation."""

import contextlib
import sys
from collections.abc import Generator
from typing import Any

import click

from app.cli.conversation import Answered, Line, Wanted, document
from app.cli.sentences import INTERRUPTED, Failure
from app.cli.speaking import Speaker, tell_about
from app.cli.telling import json_option, tell_json
from app.local.listeners import reachable_url
from app.local.trouble import Trouble
from app.settings import Settings
from providers.events import Event

# Where it is there, the arrow keys edit and recall what is typed.
with contextlib.suppress(ImportError):
    import readline as readline

_LONGEST_SILENCE_S = 30.0  # more than what the gateway itself allows an engine


@click.command()
@click.argument("model")
@click.argument("message", nargs=-1)
@click.option("--system", help="A system message to begin with.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="The most tokens that the answer may have.")
@click.option("--temperature", type=float, help="How freely the model chooses; 0 is the least.")
@click.option("--no-stream", is_flag=True, help="Wait for the whole answer instead of showing it as it comes.")
@click.option("--key", envvar="NARTHEX_KEY", show_envvar=True, help="The key to ask with; without one, the first key of this home.")
@click.option("--url", help="A gateway elsewhere, without /v1; without it, the one of NARTHEX_HOST and NARTHEX_PORT.")
@json_option
def chat(
    model: str,
    message: tuple[str, ...],
    system: str | None,
    max_tokens: int | None,
    temperature: float | None,
    no_stream: bool,
    key: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Ask MODEL something, through the running gateway.

    MESSAGE is the question; - (or a pipe, without a MESSAGE) is standard input; without either, on a terminal, a conversation begins,
    which Ctrl-D ends. Ctrl-C stops an answer, and the engine with it.

    The answer is on standard output; reasoning, tokens, times and what served it are on standard error. `narthex models` lists what
    there is to ask.

    \b
    Examples:
      narthex chat sandbox "Tell me a story"
      narthex chat sandbox
      git diff | narthex chat sandbox --system "Review this change." - > review.txt

    With --json: {"inference_id", "episode_id", "model", "served", "text", "reasoning", "refusal", "tool_calls": [{"id", "name",
    "arguments"}], "finish_reason", "usage": {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"} or null,
    "first_token_s", "duration_s", "dropped"}; an error's has "status" and "code" beside the message.
    """
    settings = Settings.read()
    said = _message(message)
    if said is None and as_json:
        raise click.UsageError("--json is for one answer: give a MESSAGE, or - for standard input.")
    wanted = Wanted(model, max_tokens, temperature, not no_stream)
    given, key_from = (key.strip(), "--key or NARTHEX_KEY") if key else _first_key(settings)
    if not given.isascii() or not given.isprintable() or " " in given:
        raise Trouble(f"What came from {key_from} cannot be a key.")
    base = url.rstrip("/").removesuffix("/v1") if url else reachable_url(settings)
    opening: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    with Line(base, given, key_from, patience_s=settings.total_timeout_s + _LONGEST_SILENCE_S) as line:
        if said is None:
            _converse(line, wanted, opening)
        elif as_json:
            with _stopping():
                tell_json(document(line.ask(wanted, [*opening, _user(said)], None, _ignore)))
        else:
            with _stopping():
                tell_about(_spoken(line, wanted, [*opening, _user(said)], None, Speaker()))


def _message(words: tuple[str, ...]) -> str | None:
    """None: a conversation is wanted. Raises click.UsageError if there is nothing to say."""
    if words and words != ("-",):
        said = " ".join(words)
    elif not words and sys.stdin.isatty():
        return None
    else:
        try:
            said = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError:
            raise click.UsageError("Standard input is no text in UTF-8.") from None
    if not said.strip():
        raise click.UsageError("The message is empty: there is nothing to ask.")
    return said


def _first_key(settings: Settings) -> tuple[str, str]:
    path = settings.home.absolute() / "first-key"
    try:
        return path.read_text().strip(), str(path)
    except FileNotFoundError:
        raise Trouble(
            f"Which key? There is none in {path}. Give one with --key or NARTHEX_KEY (`narthex keys create --team T` makes one),"
            " or set NARTHEX_HOME to the folder in which Narthex runs."
        ) from None


def _converse(line: Line, wanted: Wanted, messages: list[dict[str, Any]]) -> None:
    """Until Ctrl-D, or Ctrl-C where nothing is being answered. An answer that failed is taken back, with its question."""
    click.secho(f"Talking with {wanted.model}. Ctrl-D ends, Ctrl-C stops an answer.", dim=True, err=True)
    episode_id: str | None = None
    while True:
        try:
            said = input("> ")
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        if not said.strip():
            continue
        speaker = Speaker()
        try:
            answer = _spoken(line, wanted, [*messages, _user(said)], episode_id, speaker)
        except Failure as fault:
            click.secho(fault.format_message(), fg="red", err=True)
            continue
        except KeyboardInterrupt:
            click.secho("Stopped.", dim=True, err=True)
            messages += [_user(said), {"role": "assistant", "content": speaker.text}]
            continue
        episode_id = answer.episode_id
        messages += [_user(said), {"role": "assistant", "content": answer.text}]
        tell_about(answer)


def _spoken(line: Line, wanted: Wanted, messages: list[dict[str, Any]], episode_id: str | None, speaker: Speaker) -> Answered:
    try:
        return line.ask(wanted, messages, episode_id, speaker.hear)
    finally:
        speaker.end()


@contextlib.contextmanager
def _stopping() -> Generator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.secho("Stopped.", dim=True, err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _user(said: str) -> dict[str, Any]:
    return {"role": "user", "content": said}


def _ignore(event: Event) -> None:
    pass
