"""Provider: the adapter class. Where we speak, as whom, in which dialects, and what that host wants bent."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import httpx

from providers import guided
from providers.errors import Unsupported, UpstreamError
from providers.media import Kind
from providers.told import read_error
from providers.wire import NULL, Body

# Fields whose loss changes no answer: a target that cannot honour them does without, and the drop is reported.
HINTS = frozenset(
    {
        "user",
        "store",
        "metadata",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "guided_decoding_backend",
    }
)

# What the gateway itself is told in a body; no engine is to see it.
_OURS = frozenset({"episode_id", "tensorzero::episode_id", "tensorzero::tags"})

# Where each dialect is spoken below a base URL with its version segment; those that begin with a server's root are not.
PATHS: Mapping[str, str] = {
    "openai_chat": "/chat/completions",
    "openai_completions": "/completions",
    "openai_responses": "/responses",
    "openai_embeddings": "/embeddings",
    "anthropic_messages": "/messages",
    "anthropic_count_tokens": "/messages/count_tokens",
}
_AT_ROOT: Mapping[str, str] = {"vllm_generate": "/inference/v1/generate"}

# The dialects in which fields have OpenAI's names for them.
_OPENAI_SHAPED = frozenset({"openai_chat", "openai_completions"})

_GUIDED = guided.WORDS | {"guided_whitespace_pattern", "guided_decoding_backend"}


class BadOption(ValueError):
    """A provider's configuration that its adapter cannot take; the message says what it may be."""


class Provider:
    """Anything that speaks OpenAI's dialect. Hosts with ways of their own say so in a subclass, as data where that is enough.

    One instance per configured provider and engine version. `version` None: not known (yet).
    """

    name: ClassVar[str] = "openai"
    # Its own, best first: in which it is asked what a caller says in a dialect that it does not speak.
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings")
    default_base_url: ClassVar[str | None] = "https://api.openai.com/v1"
    # Options that `[providers.NAME] options` may hold, with what each is for.
    known_options: ClassVar[Mapping[str, str]] = {
        "stream": 'which answers the engine gives: "both" (default), "only" streams, or "never"',
        "stream_usage": "false: the engine refuses stream_options, so streams are not asked to tell usage",
        "accepts": "a list of fields that this engine honours although its adapter would refuse them",
        "dialects": "a list of the dialects that this host speaks, best first, where they are not those of its adapter",
    }
    # Asked of each endpoint now and then, to learn what it is and whether it lives; None: it is never asked.
    probe_path: ClassVar[str | None] = None
    # Whether a raw prompt may stand in place of messages in a chat (mini-sglang).
    takes_prompt: ClassVar[bool] = False
    # Media of these kinds this host takes in bytes only: it fetches nothing.
    only_bytes: ClassVar[frozenset[Kind]] = frozenset()

    rename: Mapping[str, str] = {}
    refuses: frozenset[str] = frozenset({"chat_template", "chat_template_kwargs", "mm_processor_kwargs", "guided_whitespace_pattern"})
    hints: frozenset[str] = frozenset({"guided_decoding_backend"})

    def __init__(self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None) -> None:
        """Raises BadOption."""
        for key in options:
            if key not in self.known_options:
                known = "; ".join(f"{name}: {meaning}" for name, meaning in self.known_options.items())
                raise BadOption(f"Option {key!r} of provider {configured_as!r} is not one of adapter {self.name!r}. Its options: {known}.")
        stream = options.get("stream", "both")
        if stream not in ("both", "only", "never"):
            raise BadOption(f'Option stream={stream!r} of provider {configured_as!r} may be "both", "only" or "never".')
        accepts = options.get("accepts", [])
        if not isinstance(accepts, list) or not all(isinstance(field, str) for field in accepts):  # pyright: ignore[reportUnknownVariableType]
            raise BadOption(f"Option accepts of provider {configured_as!r} must be a list of field names.")
        dialects = options.get("dialects", [])
        if not isinstance(dialects, list) or not PATHS.keys() | _AT_ROOT.keys() >= set(dialects):  # pyright: ignore[reportUnknownArgumentType]
            known = ", ".join([*PATHS, *_AT_ROOT])
            raise BadOption(f"Option dialects of provider {configured_as!r} must be a list of these: {known}.")
        self._dialects: tuple[str, ...] = tuple(dialects)  # pyright: ignore[reportUnknownArgumentType]
        self.configured_as = configured_as
        self.options = options
        self.version = version
        self.streams: Literal["both", "only", "never"] = stream
        self.stream_usage = bool(options.get("stream_usage", True))
        self.refuses = self.refuses.difference(accepts)  # pyright: ignore[reportUnknownArgumentType]
        self.hints = self.hints.difference(accepts)  # pyright: ignore[reportUnknownArgumentType]

    def at_version(self, version: tuple[int, ...] | None) -> "Provider":
        """The same provider, speaking as this version of its engine does."""
        return type(self)(self.configured_as, self.options, version)

    def dialects_at(self, base_url: str) -> tuple[str, ...]:
        """Those spoken there, best first. OpenAI's own address speaks Responses too, which loses less of reasoning than chat does."""
        if self._dialects:
            return self._dialects
        at_openai = self.name == "openai" and httpx.URL(base_url).host == "api.openai.com"
        return ("openai_responses", *self.dialects) if at_openai else self.dialects

    def url(self, base_url: str, dialect: str) -> httpx.URL:
        """Where a dialect is spoken. `base_url` with or without its version segment (/v1) is understood."""
        at_root = _AT_ROOT.get(dialect)
        return httpx.URL(server_root(base_url) + at_root if at_root else versioned(base_url) + PATHS[dialect])

    def headers(self, credential: str | None) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {credential}")] if credential else []

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool]) -> list[str]:
        """Makes a body in a dialect of this host's what it takes; gives the fields that were dropped.

        Raises Unsupported for a field that the host cannot honour and the caller does not let go.
        """
        for key in _OURS & body.keys():
            del body[key]
        if dialect not in _OPENAI_SHAPED:
            return []
        dropped = self._drop(body, may_drop)
        if not _GUIDED.isdisjoint(body):
            self._guide(body, may_drop, dropped)
        for theirs, ours in self.rename.items():
            if theirs in body:
                body[ours] = body.pop(theirs)
        return dropped

    def _drop(self, body: Body, may_drop: Callable[[str], bool]) -> list[str]:
        dropped: list[str] = []
        if self.refuses.isdisjoint(body) and self.hints.isdisjoint(body):
            return dropped
        for key in sorted((self.refuses | self.hints) & body.keys()):
            if body[key] != NULL:
                if key not in self.hints and not may_drop(key):
                    raise self.unsupported(key, f"it does not honour `{key}`.")
                dropped.append(key)
            del body[key]
        return dropped

    def _guide(self, body: Body, may_drop: Callable[[str], bool], dropped: list[str]) -> None:
        output = guided.read_output(body)
        words = sorted(guided.WORDS & body.keys())
        said = [word for word in words if body.said(word)]
        if self.native_words(body) or not words:
            return
        for word in words:
            del body[word]
        if output is None:
            return
        try:
            body.update(self.guide(output))
        except Unsupported as reason:
            if not may_drop(said[0]):
                raise self.unsupported(said[0], reason.message) from None
            dropped.extend(said)

    def native_words(self, body: Body) -> bool:
        """Whether the engine obeys the caller's words for guided decoding as they stand: then they stay the caller's bytes."""
        return False

    def guide(self, output: guided.Output) -> dict[str, Any]:
        """The engine's words for an output. Raises Unsupported where it has none."""
        return guided.as_response_format(output)

    def unsupported(self, field: str, why: str) -> Unsupported:
        return Unsupported(
            f"`{field}` cannot be honoured by {self.configured_as} ({self.name}): {why} "
            f"Leave it out, choose another model, or send the header `x-narthex-drop: {field}` to go without.",
            param=field,
        )

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return read_error(status, headers, body)

    def read_version(self, probe: bytes) -> tuple[int, ...] | None:
        """The engine's version out of its answer to `probe_path`; None if it does not say."""
        return None


def versioned(base_url: str) -> str:
    """A base URL whose path has a version segment: its own, or /v1."""
    base = base_url.rstrip("/")
    path = httpx.URL(base).path
    has_version = any(part[:1] == "v" and part[1:2].isdigit() for part in path.split("/"))
    return base if has_version else base + "/v1"


def server_root(base_url: str) -> str:
    """The base URL without its version segment: where an engine's own routes (/version, /health) are."""
    base = base_url.rstrip("/")
    head, _, last = base.rpartition("/")
    return head if last[:1] == "v" and last[1:].isdigit() and not head.endswith("/") else base
