"""Provider: the contract of an adapter. Where a host or an engine is, which dialects it speaks, and what it cannot honour.

The gateway and the catalogue know adapters only by this class. A request goes through it in this order: spoken_dialects_for() and
plan_constraint() choose the dialect; adapt_chat() changes the canonical chat of a request that is translated, before the dialect writes
it; adapt_request() changes the body, translated or not; set_model(), url(), headers() and signer() address it; read_error() reads the
error of a response.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import httpx
from msgspec import Struct
from msgspec.structs import replace

from providers import structured_output
from providers.adapters.lora import AdapterNaming, LoadedAdapters, check_loaded
from providers.adapters.probe import ALL_MODELS, NO_IMAGE_SUPPORT, ImageSupport
from providers.adapters.tool_names import ToolNames
from providers.adapters.urls import DIALECT_PATHS, ROOT_PATHS, dialect_url
from providers.canonical.chat import CacheMarkPlace, ChatRequest
from providers.canonical.errors import Unsupported, UpstreamError
from providers.canonical.media import MediaKind
from providers.canonical.output_format import OutputFormat
from providers.canonical.raw_json import Body
from providers.canonical.sse import StreamUnwrapper
from providers.canonical.template_errors import TemplateRule
from providers.canonical.upstream_errors import read_error
from providers.credentials import Fetch, Signer
from providers.dialect_rule import DialectRule
from providers.drop_policy import DropPolicy, unsupported_error
from providers.host_operation import HostOperation
from providers.learned_rules.rule import NOTHING_LEARNED, LearnedRules
from providers.profiles.claude.host import ClaudeHost
from providers.restricted_fields import RestrictedFields
from providers.structured_output import Constraint, ConstraintPlan

# Fields of a body that are meant for the gateway; no engine sees them.
_GATEWAY_FIELDS = frozenset({"episode_id", "tensorzero::episode_id", "tensorzero::tags"})

_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")


class InvalidOption(ValueError):
    """A provider's configuration that its adapter rejects; the message says what is allowed, and not which provider it is."""


class Adapted(Struct):
    """The result of adapt_request(): the fields that it dropped, and how the constraint is enforced, if there is one."""

    dropped: list[str]
    constraint_plan: ConstraintPlan | None


TEAM_CACHES_OPTION = "false: teams share the prefix cache, as for a long system prompt in common; a team can then tell what others sent"


class Provider:
    """A configured host or engine. The defaults change no request and claim no ability; subclasses state the rest, as data if possible.

    Hosts and engines with OpenAI's dialects inherit OpenAICompatible. There is one instance per configured provider and engine version.
    """

    name: ClassVar[str]
    # Its dialects, best first: a request in a dialect that it does not speak is translated into the first that can express it.
    dialects: ClassVar[tuple[str, ...]] = ()
    default_base_url: ClassVar[str | None] = None
    # Options that `[providers.NAME] options` may hold, with what each is for.
    known_options: ClassVar[Mapping[str, str]] = {
        "stream": 'which responses the engine gives: "both" (default), "only" streams, or "never" streams',
        "stream_usage": "false: the engine refuses stream_options, so streams do not request usage",
        "accepts": "a list of fields that this engine honours, or that callers may set, although its adapter would refuse them",
        "refuses": "a list of more fields that callers may not set",
        "guided": 'whether this server enforces JSON schemas: "validated" (default; the gateway checks responses) or "enforced"',
        "stops_on_disconnect": 'which responses it stops generating, and billing, once the gateway leaves: "always", "streams" or "never"',
        "stops_after_calls": "true: it ends responses with calls by `stop`, and callers of Chat get `tool_calls`, as OpenAI says it",
        "instructions": (
            'where the models\' chat templates take instructions: "anywhere" (default), in one "first" message, or "nowhere"; others become'
            " marked texts of the user's"
        ),
        "turns": 'how users and assistants may follow each other in the chat templates: "freely" (default), or they must "alternate"',
        "dialects": "a list of the dialects that this host speaks, best first, where they are not those of its adapter",
        "media_hosts": "a list of hosts (NAME or *.NAME) whose media URLs a self-hosted engine gets as they are; others are fetched for it",
    }
    # Whether a chat may hold a raw prompt in place of messages (mini-sglang).
    accepts_raw_prompt: ClassVar[bool] = False
    # Whether it runs in the operator's network: media URLs of callers are then fetched for it, unless `media_hosts` has their host.
    is_self_hosted: bool = False
    # Whether it gets the trace of a request unless its configuration says otherwise; None: if it is self-hosted.
    gets_trace: ClassVar[bool | None] = None
    # What it takes of Claude's features, where that is not all of them.
    claude_host: ClaudeHost | None = None
    # Where its chat reads Anthropic's marks of a cache: in a part, or beside the messages.
    cache_marks: frozenset[CacheMarkPlace] = frozenset()
    # Whether must_adapt_as_chat() may be true.
    adapts_own_dialects: ClassVar[bool] = False
    # Whether its URLs name the model, and differ for streams.
    model_in_url: ClassVar[bool] = False
    # Whether the headers of its responses report its rate limits.
    reports_rate_limits: ClassVar[bool] = False
    # The clouds whose own credential chain (aws:default, google:default) may be its credential.
    credential_chains: ClassVar[frozenset[str]] = frozenset()
    # Embeddings and token counts that this host has in a shape of its own, by the caller's dialect.
    host_operations: ClassVar[Mapping[str, HostOperation]] = {}
    # Kinds of media that it takes inline only, for it fetches nothing.
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    # Its dialects in which it enforces all of `constraint_support`; a request with a constraint is written in one of them if possible.
    # Whether it enforces the schema fields of its other dialects is not known: those responses are validated.
    constrained_dialects: frozenset[str] = frozenset()
    # False: it accepts `strict` of a tool and ignores it.
    strict_tools: ClassVar[bool] = True
    # It ends a response at a stop sequence and leaves the sequence in the text, which the gateway then cuts.
    leaves_stop_in_text: ClassVar[bool] = False
    # The names of tools that it takes; others are sent under one that it does. None: no rule is known.
    tool_names: ToolNames | None = None
    # The field for a request id of ours, by which abort_request() stops a request where closing the connection does not.
    request_id_field: ClassVar[str | None] = None
    # In chat: the objects `thinking` and `reasoning` that it reads itself; the others are written as `reasoning_effort`. None: not known.
    thinking_fields: frozenset[str] | None = None
    # It reports the finish reason `stop` for responses with tool calls. Callers of Messages and Responses see calls anyway.
    stops_after_calls: bool = False
    # Its dialects in which it reads `cache_salt`: there each team gets a prefix cache of its own.
    salted_dialects: frozenset[str] = frozenset()
    # What makes its completions as long as a chat's would be, for a raw prompt that came to the chat route. None: nothing does.
    no_limit_fields: ClassVar[Mapping[str, Any] | None] = None
    # Its dialects for chats in which it goes on after the text of a final assistant message, with the fields that make it do so.
    continuation_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    # Its dialects in which a stream can say with each piece how many tokens it has written, where it is asked to.
    continuous_usage_dialects: ClassVar[frozenset[str]] = frozenset()
    # How it selects a LoRA adapter; None: it has none.
    lora_naming: ClassVar[AdapterNaming | None] = None

    # Which responses it is known to stop generating, and billing, when the gateway closes the connection. Of the others a caller who
    # disconnects is charged what was reserved: hosts report no usage to whoever has left.
    stops_on_disconnect: Literal["always", "streams", "never"] = "never"

    # In OpenAI's dialects: fields under another name; fields that it lacks or ignores; and of those, the ones that are only hints.
    renamed_fields: Mapping[str, str] = {}
    unsupported_fields: frozenset[str] = frozenset()
    hint_fields: frozenset[str] = frozenset()
    # In all of its dialects and routes: fields that are not open to callers, with what a request would choose by them.
    restricted_fields: Mapping[str, str] = {}

    # The beta with which it drops thinking blocks that are bound to another conversation, if asked to; None: it does not.
    binding_controls_beta: ClassVar[str | None] = None
    # Where it lists its models with what they accept; None: nothing is read by itself.
    model_list_path: ClassVar[str | None] = None
    # What hosts have refused in this process, which all of its providers share; see providers/learned_rules.
    learned_rules: LearnedRules = NOTHING_LEARNED

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """`version`: the engine's; None: not known (yet). `base_url` None: the adapter's own. Raises InvalidOption."""
        for key in options:
            if key not in self.known_options:
                raise InvalidOption(
                    f"Option {key!r} is not one of adapter {self.name!r}. Its options:"
                    f" {', '.join(self.known_options) or 'none'} (`narthex providers list --adapters` explains them)."
                )
        stream = options.get("stream", "both")
        if stream not in ("both", "only", "never"):
            raise InvalidOption(f'Option stream={stream!r} may be "both", "only" or "never".')
        if options.get("instructions", "anywhere") not in ("anywhere", "first", "nowhere"):
            raise InvalidOption('Option instructions may be "anywhere", "first" or "nowhere".')
        if options.get("turns", "freely") not in ("freely", "alternate"):
            raise InvalidOption('Option turns may be "freely" or "alternate".')
        if options.get("guided", "validated") not in ("validated", "enforced"):
            raise InvalidOption('Option guided may be "validated" or "enforced".')
        stops_after_calls = options.get("stops_after_calls", self.stops_after_calls)
        if not isinstance(stops_after_calls, bool):
            raise InvalidOption("Option stops_after_calls may be true or false.")
        stops_on_disconnect = options.get("stops_on_disconnect", self.stops_on_disconnect)
        if stops_on_disconnect not in ("always", "streams", "never"):
            raise InvalidOption('Option stops_on_disconnect may be "always", "streams" or "never".')
        accepts, refuses = (_field_names(option, options) for option in ("accepts", "refuses"))
        if both := sorted(accepts & refuses):
            raise InvalidOption(f"Options accepts and refuses both name {both[0]!r}.")
        media_hosts = options.get("media_hosts", [])
        if not isinstance(media_hosts, list) or not all(isinstance(host, str) and _HOST.fullmatch(host) for host in media_hosts):  # pyright: ignore[reportUnknownVariableType]
            raise InvalidOption("Option media_hosts must be a list of host names, or *.NAME for all below one.")
        dialects = options.get("dialects", [])
        if not isinstance(dialects, list) or not DIALECT_PATHS.keys() | ROOT_PATHS.keys() >= set(dialects):  # pyright: ignore[reportUnknownArgumentType]
            known = ", ".join([*DIALECT_PATHS, *ROOT_PATHS])
            raise InvalidOption(f"Option dialects must be a list of these: {known}.")
        self.template_rule: TemplateRule | None = _template_rule(options)
        self.media_hosts = frozenset(str(host).lower() for host in media_hosts)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        self._dialects: tuple[str, ...] = tuple(dialects)  # pyright: ignore[reportUnknownArgumentType]
        self.configured_as = configured_as
        self.options = options
        self.version = version
        self.base_url = base_url
        self.lora_adapters: LoadedAdapters = None
        self.image_support: ImageSupport = NO_IMAGE_SUPPORT
        self.streams: Literal["both", "only", "never"] = stream
        self.stream_usage = bool(options.get("stream_usage", True))
        self.stops_after_calls = stops_after_calls
        self.stops_on_disconnect = stops_on_disconnect
        self.unsupported_fields = self.unsupported_fields - accepts
        self.hint_fields = self.hint_fields - accepts
        if not isinstance(options.get("team_caches", True), bool):
            raise InvalidOption("Option team_caches may be true or false.")
        if not options.get("team_caches", True):
            self.salted_dialects = frozenset()
        self.restricted = RestrictedFields(self.restricted_fields, refuses, accepts)

    def at_version(self, version: tuple[int, ...] | None) -> "Provider":
        """The same provider for this version of its engine."""
        provider = type(self)(self.configured_as, self.options, version, self.base_url)
        provider.learned_rules = self.learned_rules
        return provider

    @property
    def target_name(self) -> str:
        """How errors name it: the configured name, and the adapter's."""
        return f"{self.configured_as} ({self.name})"

    # Where it is, and with which credential.

    @property
    def base_url_required_reason(self) -> str | None:
        """Why its configuration needs a base URL; None: it does not."""
        return None if self.default_base_url is not None else f"adapter {self.name!r} has no address of its own."

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        """Returns the URL at which a dialect is served.

        `base_url` may have its version segment or not. `model` and `stream` are for `model_in_url`.
        """
        return dialect_url(base_url, dialect)

    def display_url(self, base_url: str) -> str:
        """A base URL with what the options add to it, such as a region: as people and records see it."""
        return base_url

    def complete_url(self, url: httpx.URL, credential: str | None) -> httpx.URL:
        """A URL with what only the credential determines, such as a project. Raises CredentialError where it does not."""
        return url

    def check_credential_host(self, credential: str, url: httpx.URL) -> None:
        """Raises CredentialError for a cloud's own credential chain at a URL that is not that cloud's."""

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """Headers of every request in a dialect; they replace the gateway's own of the same name."""
        return [("authorization", f"Bearer {credential}")] if credential else []

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        """Returns what signs each request, or gets a token for it; None if headers() suffice.

        Raises CredentialError for a credential of another host.
        """
        return None

    # Which dialects it speaks, and how requests and responses differ in them.

    @property
    def spoken_dialects(self) -> tuple[str, ...]:
        """Its dialects as configured, best first."""
        return self._dialects or self.dialects

    def spoken_dialects_for(self, model: str) -> tuple[str, ...]:
        """Its dialects for one of its models, best first."""
        return self.spoken_dialects

    def dialect_rule_for(self, model: str) -> DialectRule | None:
        """Returns the rule for requests that one of its models takes in one dialect only, or best in that one.

        None means that the dialect does not depend on the request.
        """
        return None

    def inline_media_kinds_in(self, dialect: str) -> frozenset[MediaKind]:
        """The kinds of media that it takes inline only, in this dialect."""
        return self.inline_media_kinds

    def accepts_media_url(self, address: str, dialect: str) -> bool:
        """Whether it reads this URL itself, although that kind of media has to come inline otherwise."""
        return False

    def why_no_images(self, model: str) -> str | None:
        """Why one of its models reads no images: a sentence that begins with "it" or "its"; None: it does, or that is not known."""
        support = self.image_support
        if not support or support.get(model, support.get(ALL_MODELS)) is not False:
            return None
        return f"its model {model} reads no images."

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        """Writes the model into a body that is otherwise ready, or removes it where the URL names it."""
        body["model"] = model

    def must_adapt_as_chat(self, body: Body, dialect: str, model: str) -> bool:
        """Whether a body in a dialect that caller and provider share must be adapted as a chat. Asked where `adapts_own_dialects`."""
        return False

    def forward_betas(self, body: Body, dialect: str, betas: bytes) -> bytes:
        """The caller's `anthropic-beta` as this host gets it: in the header that is returned, or in the body."""
        return betas

    def stream_unwrapper(self, dialect: str) -> StreamUnwrapper | None:
        """Returns what removes the host's own framing from around a dialect's stream, or None if there is no such framing."""
        return None

    # Continuing a response that broke off.

    def continues_text(self, dialect: str, model: str) -> bool:
        """Whether a model goes on after a final assistant message in this dialect, and repeats nothing of it."""
        return dialect in self.continuation_fields

    def continue_text(self, body: Body, dialect: str) -> None:
        """Makes a body whose last message is the beginning of the response go on after it."""
        body.update(self.continuation_fields.get(dialect, {}))

    def request_usage_throughout(self, body: Body, dialect: str) -> None:
        """Makes a stream of which prepare_upstream_body() has requested usage report it with each piece, if the engine can."""
        if dialect in self.continuous_usage_dialects and "stream_options" in body:
            body["stream_options"]["continuous_usage_stats"] = True

    # Structured output.

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        """How each kind of constraint is written in OpenAI's dialects; a kind that is missing is not supported there."""
        return {}

    @property
    def trusted(self) -> bool:
        """Whether the operator states that this server enforces schemas (option `guided`)."""
        return self.options.get("guided") == "enforced"

    @property
    def enforces_strict_tools(self) -> bool:
        """Whether it holds the arguments of calls to the schemas of `strict` tools."""
        return self.strict_tools

    @property
    def is_openai_host(self) -> bool:
        """Whether this is OpenAI itself."""
        return False

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """How a constraint is enforced in a dialect of this provider; None: nothing constrains the text of the response.

        `in_own_fields`: the body holds it in the provider's own fields already. Raises Unsupported where it can be neither enforced by
        the engine nor validated by the gateway.
        """
        output = constraint.output
        if output is None:
            return None
        is_enforced = dialect in self.constrained_dialects and self._is_enforced(output)
        return ConstraintPlan("enforced" if is_enforced else "validated", output)

    def _is_enforced(self, output: OutputFormat) -> bool:
        """Whether it enforces this output format, of a kind that it supports."""
        return True

    # What it cannot honour.

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        """Adapts a canonical chat to this provider, before it is written in a dialect that its caller does not speak.

        `chat.model` is the provider's own name for it. Raises Unsupported as `drop_policy` does.
        """
        return chat

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        """Adapts a body in one of the provider's dialects, in place.

        Raises Unsupported for a field that it cannot honour, unless `may_drop` allows that the field is dropped.
        """
        remove_gateway_fields(body)
        if constraint is None:
            return Adapted([], None)
        drop_policy = self.drop_policy(body, may_drop)
        if constraint.whitespace is not None:
            constraint = self._drop_whitespace(body, constraint, drop_policy, "it supports neither a white-space pattern nor a regex.")
        plan = self._plan_or_drop_constraint(body, dialect, constraint, drop_policy, in_own_fields=False)
        return Adapted(drop_policy.dropped, plan)

    def drop_policy(self, body: Body, may_drop: Callable[[str], bool]) -> DropPolicy:
        """The policy for a body in one of the provider's dialects, whose fields have the caller's names."""
        return DropPolicy(may_drop, {}, self.target_name, body=body, accepted=self.options.get("accepts", ()))

    def unsupported_error(self, field: str, why: str) -> Unsupported:
        """The refusal of a field. `why`: a sentence that begins with "it"."""
        return unsupported_error(field, self.target_name, why)

    def _drop_whitespace(self, body: Body, constraint: Constraint, drop_policy: DropPolicy, why: str) -> Constraint:
        """The constraint without its white-space pattern. Raises Unsupported unless the caller allows that it is dropped."""
        assert constraint.whitespace is not None
        field, _ = constraint.whitespace
        drop_policy.drop_path_or_refuse(field, why)
        body.pop(field, None)
        return replace(constraint, whitespace=None)

    def _plan_or_drop_constraint(
        self, body: Body, dialect: str, constraint: Constraint, drop_policy: DropPolicy, *, in_own_fields: bool
    ) -> ConstraintPlan | None:
        """Drops what of a constraint the provider does not enforce, where the caller allows that, and plans the rest."""
        for path, _ in () if self.enforces_strict_tools else constraint.strict_tools:
            strict_path = path.rpartition(".")[0] + ".strict"
            drop_policy.drop_path_or_refuse(strict_path, "it does not hold the arguments of calls to their schema.")
        plan = None
        try:
            plan = self.plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        except Unsupported:
            if not drop_policy.may_drop(constraint.field):
                raise
            drop_policy.report_dropped(constraint.field)
        if plan is not None and (plan.enforcement == "validated" or plan.is_json_string) and body.value("echo") is True:
            drop_policy.drop_path_or_refuse("echo", "the prompt would come before the text that is validated.")
            del body["echo"]
        return plan

    # LoRA adapters.

    @property
    def supports_lora(self) -> bool:
        """Whether a target of this provider may name a LoRA adapter."""
        return self.lora_naming is not None

    def select_lora_adapter(self, model: str, adapter: str, body: Body) -> str:
        """The name under which the engine serves a model with a LoRA adapter; what else selects it is written into the body.

        Raises UpstreamNotFound for an adapter that is not loaded, Unsupported where none can be selected.
        """
        if self.lora_naming is None:
            raise self.unsupported_error("model", f"it has no LoRA adapters, and the target names {adapter!r:.100}.")
        check_loaded(adapter, self.lora_adapters, self.configured_as)
        return self.lora_naming(model, adapter, body, self.lora_adapters)

    # Errors, and requests beside the request.

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """The error that a response with this status and body reports."""
        return read_error(status, headers, body)

    def body_after_refusal(self, error: UpstreamError, dialect: str, raw: bytes) -> bytes | None:
        """The body to send once more after this error: without what the gateway itself added and the host refuses. None: there is none."""
        return None

    def next_model_page(self, page: bytes) -> str | None:
        """The path of what follows this page of its list of models; None: it is the last. Raises ValueError for what is no such page."""
        return None

    def apply_model_list(self, pages: Sequence[bytes]) -> Sequence[str]:
        """Makes models accept what the list says. Returns the models on which the list and our tables disagree."""
        return ()

    def diagnostic_request(self, raw: bytes) -> bytes | None:
        """A body to send after a stream that ended before its first byte, so that the engine reports the reason; None: there is none."""
        return None

    def abort_request(self, base_url: str, id: str) -> tuple[httpx.URL, bytes] | None:
        """The URL and the body of the POST that stops the request with this id in `request_id_field`.

        None: closing the connection is enough.
        """
        return None


def _template_rule(options: Mapping[str, Any]) -> TemplateRule | None:
    """Returns the rule that the options state for the models' chat templates.

    None means that the templates take what every caller sends, as far as is known.
    """
    if options.get("instructions") == "nowhere":
        return "no_instructions"
    if options.get("turns") == "alternate":
        return "alternate_turns"
    return "leading_instructions" if options.get("instructions") == "first" else None


def _field_names(option: str, options: Mapping[str, Any]) -> frozenset[str]:
    """Raises InvalidOption."""
    names = options.get(option, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnknownVariableType]
        raise InvalidOption(f"Option {option} must be a list of field names.")
    return frozenset(names)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def remove_gateway_fields(body: Body) -> None:
    """Removes the fields that are meant only for the gateway."""
    for key in _GATEWAY_FIELDS & body.keys():
        del body[key]
