"""Provider: the contract of an adapter. Where a host or an engine is, which dialects it speaks, and what it cannot honour.

The gateway and the catalogue know adapters only by this class. A request goes through it in this order: spoken_dialects_for() and
plan_constraint() choose the dialect; adapt_chat() changes the canonical chat of a request that is translated, before the dialect writes
it; adapt_request() changes the body, translated or not; set_model(), url(), headers() and signer() address it; read_error() reads the
error of a response.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx2
from msgspec import Struct
from msgspec.structs import replace

from providers import structured_output
from providers.adapters.lora import LoadedAdapters, check_loaded
from providers.adapters.options import check_known_options, read_shared_options
from providers.adapters.probe import ALL_MODELS, NO_IMAGE_SUPPORT, ImageSupport
from providers.adapters.traits import AdapterTraits
from providers.adapters.urls import dialect_url
from providers.canonical.chat import ChatRequest
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
from providers.restricted_fields import RestrictedFields
from providers.structured_output import Constraint, ConstraintPlan

# Fields of a body that are meant for the gateway; no engine sees them.
_GATEWAY_FIELDS = frozenset({"episode_id", "tensorzero::episode_id", "tensorzero::tags"})


class Adapted(Struct):
    """The result of adapt_request(): the fields that it dropped, and how the constraint is enforced, if there is one."""

    dropped: list[str]
    constraint_plan: ConstraintPlan | None


class Provider(AdapterTraits):
    """A configured host or engine. The defaults change no request and claim no ability; subclasses state the rest, as data if possible.

    Hosts and engines with OpenAI's dialects inherit OpenAICompatible. There is one instance per configured provider and engine version.
    """

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption. `version` is the engine's; None: not known (yet). `base_url` None means the adapter's own."""
        check_known_options(self.name, self.known_options, options)
        shared = read_shared_options(options, stops_after_calls=self.stops_after_calls, stops_on_disconnect=self.stops_on_disconnect)
        self.template_rule: TemplateRule | None = shared.template_rule
        self.media_hosts = shared.media_hosts
        self._dialects = shared.dialects
        self.configured_as = configured_as
        self.options = options
        self.version = version
        self.base_url = base_url
        self.lora_adapters: LoadedAdapters = None
        self.image_support: ImageSupport = NO_IMAGE_SUPPORT
        self.streams = shared.streams
        self.stream_usage = shared.stream_usage
        self.stops_after_calls = shared.stops_after_calls
        self.stops_on_disconnect = shared.stops_on_disconnect
        self.unsupported_fields = self.unsupported_fields - shared.accepts
        self.hint_fields = self.hint_fields - shared.accepts
        if not shared.team_caches:
            self.salted_dialects = frozenset()
        self.restricted = RestrictedFields(self.restricted_fields, shared.refuses, shared.accepts)

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

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        """Returns the URL at which a dialect is served.

        `base_url` may have its version segment or not. `model` and `stream` are for `model_in_url`.
        """
        return dialect_url(base_url, dialect)

    def display_url(self, base_url: str) -> str:
        """A base URL with what the options add to it, such as a region: as people and records see it."""
        return base_url

    def complete_url(self, url: httpx2.URL, credential: str | None) -> httpx2.URL:
        """A URL with what only the credential determines, such as a project. Raises CredentialError where it does not."""
        return url

    def check_credential_host(self, credential: str, url: httpx2.URL) -> None:
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

        `in_own_fields` says that the body holds it in the provider's own fields already. Raises Unsupported where it can be neither
        enforced by the engine nor validated by the gateway.
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
        """The refusal of a field. `why` is a sentence that begins with "it"."""
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

    def abort_request(self, base_url: str, id: str) -> tuple[httpx2.URL, bytes] | None:
        """The URL and the body of the POST that stops the request with this id in `request_id_field`.

        None: closing the connection is enough.
        """
        return None


def remove_gateway_fields(body: Body) -> None:
    """Removes the fields that are meant only for the gateway."""
    for key in _GATEWAY_FIELDS & body.keys():
        del body[key]
