"""narthex chat: one question, or a conversation."""

import contextlib
import sys
from collections.abc import Generator
from typing import Any

import click

from app.cli.chat_client import ChatClient, ChatParams, ChatResult, result_document
from app.cli.errors import INTERRUPTED, CommandError
from app.cli.output import json_option, print_json
from app.cli.render import AnswerRenderer, print_summary
from app.settings import Settings
from app.supervisor.errors import OperatorError
from app.supervisor.http_processes import reachable_url
from providers.canonical.events import Event

# Where it is there, the arrow keys edit and recall what is typed.
with contextlib.suppress(ImportError):
    import readline as readline

_MAX_SILENCE_S = 30.0  # more than what the gateway itself allows an engine


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
    text = _read_message(message)
    if text is None and as_json:
        raise click.UsageError("--json is for one answer: give a MESSAGE, or - for standard input.")
    chat_params = ChatParams(model, max_tokens, temperature, not no_stream)
    api_key, key_from = (key.strip(), "--key or NARTHEX_KEY") if key else _read_first_key(settings)
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise OperatorError(f"What came from {key_from} cannot be a key.")
    base_url = url.rstrip("/").removesuffix("/v1") if url else reachable_url(settings)
    opening_messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    with ChatClient(base_url, api_key, key_from, timeout_s=settings.total_timeout_s + _MAX_SILENCE_S) as client:
        if text is None:
            _run_conversation(client, chat_params, opening_messages)
        elif as_json:
            with _exit_on_interrupt():
                print_json(result_document(client.send(chat_params, [*opening_messages, _user_message(text)], None, _ignore)))
        else:
            with _exit_on_interrupt():
                print_summary(_render_response(client, chat_params, [*opening_messages, _user_message(text)], None, AnswerRenderer()))


def _read_message(arguments: tuple[str, ...]) -> str | None:
    """None: a conversation is wanted. Raises click.UsageError if there is nothing to say."""
    if arguments and arguments != ("-",):
        text = " ".join(arguments)
    elif not arguments and sys.stdin.isatty():
        return None
    else:
        try:
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError:
            raise click.UsageError("Standard input is no text in UTF-8.") from None
    if not text.strip():
        raise click.UsageError("The message is empty: there is nothing to ask.")
    return text


def _read_first_key(settings: Settings) -> tuple[str, str]:
    path = settings.home.absolute() / "first-key"
    try:
        return path.read_text().strip(), str(path)
    except FileNotFoundError:
        raise OperatorError(
            f"Which key? There is none in {path}. Give one with --key or NARTHEX_KEY (`narthex keys create --team T` makes one),"
            " or set NARTHEX_HOME to the folder in which Narthex runs."
        ) from None


def _run_conversation(client: ChatClient, chat_params: ChatParams, messages: list[dict[str, Any]]) -> None:
    """Until Ctrl-D, or Ctrl-C where nothing is being answered. An answer that failed is taken back, with its question."""
    click.secho(f"Talking with {chat_params.model}. Ctrl-D ends, Ctrl-C stops an answer.", dim=True, err=True)
    episode_id: str | None = None
    while True:
        try:
            text = input("> ")
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        if not text.strip():
            continue
        renderer = AnswerRenderer()
        try:
            result = _render_response(client, chat_params, [*messages, _user_message(text)], episode_id, renderer)
        except CommandError as fault:
            click.secho(fault.format_message(), fg="red", err=True)
            continue
        except KeyboardInterrupt:
            click.secho("Stopped.", dim=True, err=True)
            messages += [_user_message(text), {"role": "assistant", "content": renderer.text}]
            continue
        episode_id = result.episode_id
        messages += [_user_message(text), {"role": "assistant", "content": result.text}]
        print_summary(result)


def _render_response(
    client: ChatClient, chat_params: ChatParams, messages: list[dict[str, Any]], episode_id: str | None, renderer: AnswerRenderer
) -> ChatResult:
    try:
        return client.send(chat_params, messages, episode_id, renderer.on_event)
    finally:
        renderer.finish()


@contextlib.contextmanager
def _exit_on_interrupt() -> Generator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.secho("Stopped.", dim=True, err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _ignore(event: Event) -> None:
    pass
