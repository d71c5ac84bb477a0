"""Provider: the adapter class. Where we speak, as whom, in which dialects, and what that host wants bent."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import httpx
from msgspec import Struct
from msgspec.structs import replace

from providers import structured_output
from providers.adapters import lora
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import Unsupported, UpstreamError
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import NULL, Body, StreamUnwrapper
from providers.canonical.upstream_errors import read_error
from providers.credentials import Fetch, Signer
from providers.dialect import DropPolicy
from providers.host_operation import HostOperation
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport, JsonSchema, OutputFormat

# Fields whose loss changes no answer: a target that cannot honour them does without, and the drop is reported.
HINT_FIELDS = frozenset(
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
_GATEWAY_FIELDS = frozenset({"episode_id", "tensorzero::episode_id", "tensorzero::tags"})

# Where each dialect is spoken below a base URL with its version segment; those that begin with a server's root are not.
DIALECT_PATHS: Mapping[str, str] = {
    "openai_chat": "/chat/completions",
    "openai_completions": "/completions",
    "openai_responses": "/responses",
    "openai_embeddings": "/embeddings",
    "anthropic_messages": "/messages",
    "anthropic_count_tokens": "/messages/count_tokens",
}
_ROOT_PATHS: Mapping[str, str] = {"vllm_generate": "/inference/v1/generate", "ollama_chat": "/api/chat"}

# The dialects in which fields have OpenAI's names for them.
_OPENAI_SHAPED = frozenset({"openai_chat", "openai_completions"})

_CONSTRAINT_FIELDS = structured_output.CONSTRAINT_FIELDS | {"response_format"}

# OpenAI's own words, for a host that is trusted to obey them, and for one whose replies are looked at.
OPENAI_ENFORCED: structured_output.SupportByKind = {
    "json_object": ConstraintSupport("enforced", structured_output.write_response_format, keeps_response_format=True),
    "json_schema": ConstraintSupport("enforced", structured_output.write_response_format, keeps_response_format=True),
}
OPENAI_VALIDATED: structured_output.SupportByKind = {
    "json_object": ConstraintSupport("validated", structured_output.write_response_format, keeps_response_format=True),
    "json_schema": ConstraintSupport("validated", structured_output.write_response_format, keeps_response_format=True),
}


class InvalidOption(ValueError):
    """A provider's configuration that its adapter cannot take; the message says what it may be."""


class Adapted(Struct):
    """What became of a body: the fields that were dropped, and how what constrains the answer was asked for, if anything does."""

    dropped: list[str]
    constraint_plan: ConstraintPlan | None


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
        "guided": 'whether this server obeys JSON schemas for sure: "validated" (default; replies are looked at) or "enforced"',
        "dialects": "a list of the dialects that this host speaks, best first, where they are not those of its adapter",
    }
    # Whether a raw prompt may stand in place of messages in a chat (mini-sglang).
    accepts_raw_prompt: ClassVar[bool] = False
    # Whether its addresses name the model, and tell streams from whole answers.
    model_in_url: ClassVar[bool] = False
    # Whether its answers' headers tell how much more it lets through.
    reports_rate_limits: ClassVar[bool] = False
    # Whether a cloud's own chain (aws:default, google:default) may be its credential.
    credential_chains: ClassVar[frozenset[str]] = frozenset()
    # How it is asked for embeddings, or a count of tokens, where it has a shape of its own for that: by the caller's dialect.
    host_operations: ClassVar[Mapping[str, HostOperation]] = {}
    # Media of these kinds this host takes in bytes only: it fetches nothing.
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    # In which of its dialects it can be asked for all that `guided` has; an ask with a constraint is said in one of them, if it can be.
    # Of the others it is not known whether their own words for a schema are obeyed: replies are looked at.
    constrained_dialects: frozenset[str] = _OPENAI_SHAPED
    # The words of OpenAI-shaped dialects in which it takes constraints just as callers say them.
    own_constraint_fields: frozenset[str] = frozenset()
    # False: it takes `strict` of a tool, and does nothing about it.
    strict_tools: ClassVar[bool] = True
    # The field in which a request may be given an id of ours, by which abort() stops it where closing the connection does not.
    request_id_field: ClassVar[str | None] = None
    # It says that it stopped where it made calls of tools, to all but Anthropic's and Responses' callers, who are told of calls anyway.
    stops_after_calls: ClassVar[bool] = False
    # What asks its completions to go on for as long as a chat would, where a raw prompt came as a chat: OpenAI's default there is 16
    # tokens, and null is none to vLLM, LMDeploy and llama-cpp-python. None: nothing does.
    no_limit_fields: ClassVar[Mapping[str, Any] | None] = {"max_tokens": None}

    renamed_fields: Mapping[str, str] = {}
    unsupported_fields: frozenset[str] = frozenset(
        {"chat_template", "chat_template_kwargs", "mm_processor_kwargs", "guided_whitespace_pattern"}
    )
    hint_fields: frozenset[str] = frozenset({"guided_decoding_backend"})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """`base_url` None: the adapter's own. Raises BadOption."""
        for key in options:
            if key not in self.known_options:
                raise InvalidOption(
                    f"Option {key!r} of provider {configured_as!r} is not one of adapter {self.name!r}. Its options:"
                    f" {', '.join(self.known_options) or 'none'} (`narthex providers list --adapters` tells what they are for)."
                )
        stream = options.get("stream", "both")
        if stream not in ("both", "only", "never"):
            raise InvalidOption(f'Option stream={stream!r} of provider {configured_as!r} may be "both", "only" or "never".')
        if options.get("guided", "validated") not in ("validated", "enforced"):
            raise InvalidOption(f'Option guided of provider {configured_as!r} may be "validated" or "enforced".')
        accepts = options.get("accepts", [])
        if not isinstance(accepts, list) or not all(isinstance(field, str) for field in accepts):  # pyright: ignore[reportUnknownVariableType]
            raise InvalidOption(f"Option accepts of provider {configured_as!r} must be a list of field names.")
        dialects = options.get("dialects", [])
        if not isinstance(dialects, list) or not DIALECT_PATHS.keys() | _ROOT_PATHS.keys() >= set(dialects):  # pyright: ignore[reportUnknownArgumentType]
            known = ", ".join([*DIALECT_PATHS, *_ROOT_PATHS])
            raise InvalidOption(f"Option dialects of provider {configured_as!r} must be a list of these: {known}.")
        self._dialects: tuple[str, ...] = tuple(dialects)  # pyright: ignore[reportUnknownArgumentType]
        self.configured_as = configured_as
        self.options = options
        self.version = version
        self.base_url = base_url
        host = "api.openai.com" if base_url is None else httpx.URL(base_url).host
        self._is_openai_host = self.name == "openai" and (host == "api.openai.com" or host.endswith(".api.openai.com"))
        if self.is_openai_host:
            self.constrained_dialects |= {"openai_responses"}
        self.lora_adapters: lora.LoadedAdapters = None
        self.streams: Literal["both", "only", "never"] = stream
        self.stream_usage = bool(options.get("stream_usage", True))
        self.unsupported_fields = self.unsupported_fields.difference(accepts)  # pyright: ignore[reportUnknownArgumentType]
        self.hint_fields = self.hint_fields.difference(accepts)  # pyright: ignore[reportUnknownArgumentType]

    def at_version(self, version: tuple[int, ...] | None) -> "Provider":
        """The same provider, speaking as this version of its engine does."""
        return type(self)(self.configured_as, self.options, version, self.base_url)

    @property
    def base_url_required_reason(self) -> str | None:
        """Why its configuration must say a base URL; None: it need not."""
        return None if self.default_base_url is not None else f"adapter {self.name!r} has no address of its own."

    @property
    def spoken_dialects(self) -> tuple[str, ...]:
        """Its dialects, best first. OpenAI itself speaks Responses too, which loses less of reasoning than chat does."""
        if self._dialects:
            return self._dialects
        return ("openai_responses", *self.dialects) if self.is_openai_host else self.dialects

    def spoken_dialects_for(self, model: str) -> tuple[str, ...]:
        """Its dialects for one of its models, best first."""
        return self.spoken_dialects

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        """Where a dialect is spoken. `base_url` with or without its version segment (/v1) is understood.

        `model` and `stream` are said where `addresses_models`.
        """
        if dialect.startswith("/"):  # of a route (providers/routes), which is named for where it is
            return httpx.URL(
                with_version_segment(base_url) + dialect[3:] if dialect.startswith("/v1/") else server_root(base_url) + dialect
            )
        at_root = _ROOT_PATHS.get(dialect)
        return httpx.URL(server_root(base_url) + at_root if at_root else with_version_segment(base_url) + DIALECT_PATHS[dialect])

    def display_url(self, base_url: str) -> str:
        """A base URL with what the options say of it, such as a region: where it is, as people and records are told."""
        return base_url

    def check_credential_host(self, credential: str, url: httpx.URL) -> None:
        """Raises NoCredential for a cloud's own chain that is not to be shown at this address, which is not that cloud's."""

    def complete_url(self, url: httpx.URL, credential: str | None) -> httpx.URL:
        """An address with what the credential tells of it, such as a project. Raises NoCredential where it would have to, and does not."""
        return url

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """Those that every request in a dialect has, beside the gateway's own, in whose place they stand."""
        return [("authorization", f"Bearer {credential}")] if credential else []

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        """What signs each request, or has a token for it; None: headers() say all there is. Raises NoCredential for what is none of its."""
        return None

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        """Says in a body that is ready but for that, which model is asked."""
        body["model"] = model

    def inline_media_kinds_in(self, dialect: str) -> frozenset[MediaKind]:
        """Media of which kinds this host takes in bytes only, in one of its dialects."""
        return self.inline_media_kinds

    def accepts_media_url(self, address: str, dialect: str) -> bool:
        """Whether it reads this address itself, though media of that kind mostly have to come in bytes."""
        return False

    def forward_betas(self, body: Body, dialect: str, betas: bytes) -> bytes:
        """What of a caller's `anthropic-beta` goes as that header; what this host reads in the body is put there."""
        return betas

    def stream_unwrapper(self, dialect: str) -> StreamUnwrapper | None:
        """What takes a dialect's stream out of the frames that this host puts around it; None: there are none."""
        return None

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        """How each kind of output is asked for in OpenAI-shaped dialects; a kind that is not there cannot be.

        Whether any server that speaks OpenAI's dialect obeys a schema, nobody knows: so its replies are looked at.
        """
        return OPENAI_ENFORCED if self.trusted or self.is_openai_host else OPENAI_VALIDATED

    @property
    def trusted(self) -> bool:
        """Whether the operator says that this server obeys schemas."""
        return self.options.get("guided") == "enforced"

    @property
    def is_openai_host(self) -> bool:
        """Whether this is OpenAI itself."""
        return self._is_openai_host

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        """How a constraint is asked for in a dialect of this host; None: nothing constrains the answer's text.

        `as_said`: it stands in the body in one of `own_words`. Raises Unsupported where it can be neither asked for nor looked at.
        """
        output = constraint.output
        if output is None:
            return None
        if dialect not in _OPENAI_SHAPED:
            return ConstraintPlan("enforced" if dialect in self.constrained_dialects and self._is_enforced(output) else "validated", output)
        if dialect == "openai_completions" and dialect not in self.constrained_dialects:
            raise self.unsupported_error(constraint.field, "its completions have no field for it; its chat has.")
        support = self.constraint_support.get(structured_output.output_kind(output))
        if support is None:
            raise self.unsupported_error(
                constraint.field, f"it has no way to hold an answer to a {structured_output.display_name(output)}."
            )
        mode = support.enforcement if self._is_enforced(output) else "validated"
        if as_said or (support.keeps_response_format and constraint.is_openai_format):
            return ConstraintPlan(mode, output, None, support.is_json_string)
        try:
            return ConstraintPlan(mode, output, support.write(output), support.is_json_string)
        except Unsupported as reason:
            raise self.unsupported_error(constraint.field, reason.message) from None

    def _is_enforced(self, output: OutputFormat) -> bool:
        """OpenAI holds to schemas that are strict; unnamed ones, which are asked for in engines' words, it is told as strict ones.

        Source: https://platform.openai.com/docs/guides/structured-outputs, read 2026-11.
        """
        if not self.is_openai_host or not isinstance(output, JsonSchema):
            return True
        return output.strict is True or (output.strict is None and output.name is None)

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        """What of a chat this host takes otherwise, or not at all, before it is written in a dialect that its caller does not speak.

        `chat.model` is the host's own name of it. Raises as `concessions` does.
        """
        return chat

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        """Makes a body in a dialect of this host's what it takes.

        Raises Unsupported for a field that the host cannot honour and the caller does not let go.
        """
        for key in _GATEWAY_FIELDS & body.keys():
            del body[key]
        adapted = Adapted([], None)
        if constraint is not None and constraint.whitespace is not None:
            constraint = self._apply_whitespace(body, dialect, may_drop, constraint, adapted.dropped)
        if dialect in _OPENAI_SHAPED:
            self._drop_unsupported(body, may_drop, adapted.dropped)
        if constraint is not None:
            self._apply_constraint(body, dialect, may_drop, constraint, adapted)
        if dialect not in _OPENAI_SHAPED:
            return adapted
        for openai_name, host_name in self.renamed_fields.items():
            value = body.pop(openai_name, NULL)
            if value != NULL:
                body[host_name] = value
        return adapted

    def _drop_unsupported(self, body: Body, may_drop: Callable[[str], bool], dropped: list[str]) -> None:
        if self.unsupported_fields.isdisjoint(body) and self.hint_fields.isdisjoint(body):
            return
        for key in sorted((self.unsupported_fields | self.hint_fields) & body.keys()):
            if body[key] != NULL:
                if key not in self.hint_fields and not may_drop(key):
                    raise self.unsupported_error(key, "it has no such field, or does nothing about it.")
                dropped.append(key)
            del body[key]

    def _apply_whitespace(
        self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint, dropped: list[str]
    ) -> Constraint:
        """With the white space that the caller wants between JSON's parts: as a regex, for an engine that has no word for it that it obeys.

        Raises Unsupported where there is no such regex, unless the caller lets it go.
        """
        assert constraint.whitespace is not None
        field, pattern = constraint.whitespace
        if (
            dialect in _OPENAI_SHAPED
            and "guided_whitespace_pattern" not in self.unsupported_fields
            and any(map(body.has_value, {field} | self.own_constraint_fields))
        ):
            return constraint
        output = constraint.output
        try:
            if "regex" not in self.constraint_support or dialect not in _OPENAI_SHAPED or not isinstance(output, JsonSchema):
                raise Unsupported("it obeys neither a pattern for white space nor a regex in its place.")
            regex = structured_output.Regex(structured_output.schema_to_regex(output.schema, pattern))
        except Unsupported as reason:
            if not may_drop(field) and not may_drop(field.partition(".")[0]):
                raise self.unsupported_error(field, reason.message) from None
            dropped.append(field)
            body.pop(field, None)
            return replace(constraint, whitespace=None)
        body.pop(field, None)
        return replace(constraint, output=regex, is_openai_format=False)

    def _apply_constraint(
        self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint, adapted: Adapted
    ) -> None:
        for path, _ in () if self.strict_tools else constraint.strict_tools:
            strict_path = path.rpartition(".")[0] + ".strict"
            if not (may_drop(strict_path) or may_drop("tools")):
                raise self.unsupported_error(strict_path, "it does not hold the arguments of calls to their schema.")
            adapted.dropped.append(strict_path)
        converted = constraint.whitespace is not None and isinstance(constraint.output, structured_output.Regex)
        try:
            adapted.constraint_plan = self.plan_constraint(
                constraint, dialect, as_said=not converted and any(map(body.has_value, self.own_constraint_fields))
            )
            if converted and adapted.constraint_plan is not None and adapted.constraint_plan.enforcement == "enforced":
                adapted.constraint_plan = replace(adapted.constraint_plan, enforcement="converted")
        except Unsupported:
            if not may_drop(constraint.field.partition(".")[0]) and not may_drop(constraint.field):
                raise
            adapted.dropped.append(constraint.field)
        if (
            adapted.constraint_plan is not None
            and (adapted.constraint_plan.enforcement == "validated" or adapted.constraint_plan.is_json_string)
            and body.value("echo") is True
        ):
            if not may_drop("echo"):
                raise self.unsupported_error("echo", "the prompt would stand before the answer that is looked at.")
            adapted.dropped.append("echo")
            del body["echo"]
        if dialect in _OPENAI_SHAPED and (adapted.constraint_plan is None or adapted.constraint_plan.fields is not None):
            for key in _CONSTRAINT_FIELDS & body.keys():
                del body[key]
            body.update({} if adapted.constraint_plan is None else adapted.constraint_plan.fields or {})

    @property
    def supports_lora(self) -> bool:
        """Whether a target of it may name a LoRA adapter."""
        return self.name in lora.ADAPTER_NAMINGS

    def select_lora_adapter(self, model: str, adapter: str, body: Body) -> str:
        """What stands for a model with a LoRA adapter; what else names it is written into the body. Raises Missing, Unsupported."""
        naming = lora.ADAPTER_NAMINGS.get(self.name)
        if naming is None:
            raise self.unsupported_error("model", f"it cannot be asked for a LoRA adapter, as the target's {adapter!r:.100} is.")
        lora.check_loaded(adapter, self.lora_adapters, self.configured_as)
        return naming(model, adapter, body, self.lora_adapters)

    def unsupported_error(self, field: str, why: str) -> Unsupported:
        return Unsupported(
            f"`{field}` cannot be honoured by {self.configured_as} ({self.name}): {why} "
            f"Leave it out, choose another model, or send the header `x-narthex-drop: {field}` to go without.",
            param=field,
        )

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return read_error(status, headers, body)

    def diagnostic_request(self, raw: bytes) -> bytes | None:
        """What is asked in the place of a stream that ended before its first byte, so that the engine says why; None: nothing is."""
        return None

    def abort_request(self, base_url: str, id: str) -> tuple[httpx.URL, bytes] | None:
        """Where, and with which body, the request that was given this id in `id_field` is stopped by POST; None: closing is enough."""
        return None


def with_version_segment(base_url: str) -> str:
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
