"""narthex chat: one message, or a conversation."""

import contextlib
import sys
from collections.abc import Generator
from typing import Any

import click

from app.cli.chat.chat_client import ChatClient, ChatParams
from app.cli.chat.chat_result import ChatResult, result_document
from app.cli.chat.render import AnswerRenderer, print_summary
from app.cli.clients.caller_key import base_url, load_key
from app.cli.errors import INTERRUPTED, CommandError
from app.cli.output import json_option, print_json
from app.settings import Settings
from app.supervisor.machine.gateway_url import tls_verification
from providers.canonical.events import Event

# Importing it lets the arrow keys edit and recall input; not every Python has it.
with contextlib.suppress(ImportError):
    import readline as readline

_TIMEOUT_MARGIN_S = 30.0  # beyond the time that the gateway allows an engine


@click.command()
@click.argument("model")
@click.argument("message", nargs=-1)
@click.option("--system", help="A system message to start with.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum number of tokens in the response.")
@click.option("--temperature", type=float, help="Sampling temperature; 0 is the least random.")
@click.option("--no-stream", is_flag=True, help="Wait for the complete response instead of showing it as it arrives.")
@click.option("--key", envvar="NARTHEX_KEY", show_envvar=True, help="The key to send; by default, the first key of this home.")
@click.option("--url", help="Another gateway's address, without /v1; by default, the one of NARTHEX_HOST and NARTHEX_PORT.")
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
    """Send a message to MODEL, through the running gateway.

    With - (or a pipe and no MESSAGE) the message is read from standard input. Without either, on a terminal, a conversation starts;
    Ctrl-D ends it. Ctrl-C stops a response, and the engine with it.

    The response is on standard output; reasoning, tokens, times and the serving provider are on standard error. `narthex models` lists
    the models.

    \b
    Examples:
      narthex chat sandbox "Tell me a story"
      narthex chat sandbox
      git diff | narthex chat sandbox --system "Review this change." - > review.txt

    With --json: {"inference_id", "episode_id", "model", "served", "text", "reasoning", "refusal", "tool_calls": [{"id", "name",
    "arguments"}], "finish_reason", "usage": {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"} or null,
    "first_token_s", "duration_s", "dropped"}; errors have "status" and "code" beside the message.
    """
    settings = Settings.read()
    text = _load_message(message)
    if text is None and as_json:
        raise click.UsageError("--json prints one response: give a MESSAGE, or - for standard input.")
    chat_params = ChatParams(model, max_tokens, temperature, not no_stream)
    api_key, key_from = load_key(settings, key)
    address = base_url(settings, url)
    opening_messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    timeout_s, verification = settings.total_timeout_s + _TIMEOUT_MARGIN_S, tls_verification(settings, address)
    client = ChatClient(address, api_key, key_from, timeout_s=timeout_s, verification=verification)
    if text is None:
        _run_conversation(client, chat_params, opening_messages)
    elif as_json:
        with _exit_on_interrupt():
            print_json(result_document(client.send(chat_params, [*opening_messages, _user_message(text)], None, _ignore)))
    else:
        with _exit_on_interrupt():
            print_summary(_render_response(client, chat_params, [*opening_messages, _user_message(text)], None, AnswerRenderer()))


def _load_message(arguments: tuple[str, ...]) -> str | None:
    """The message; None: the user wants a conversation. Raises click.UsageError if the message is empty."""
    if arguments and arguments != ("-",):
        text = " ".join(arguments)
    elif not arguments and sys.stdin.isatty():
        return None
    else:
        try:
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError:
            raise click.UsageError("Standard input is not UTF-8 text.") from None
    if not text.strip():
        raise click.UsageError("The message is empty.")
    return text


def _run_conversation(client: ChatClient, chat_params: ChatParams, messages: list[dict[str, Any]]) -> None:
    """Runs until Ctrl-D, or Ctrl-C at the prompt. A message whose response fails is removed from the conversation."""
    click.secho(f"Chatting with {chat_params.model}. Ctrl-D ends the conversation, Ctrl-C stops a response.", dim=True, err=True)
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
