"""Amazon Bedrock: models of many makers, through Converse or in the makers' own dialects.

Sources: docs/sources.md#bedrock and #host-endpoints; https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html,
.../inference-messages-api.html and .../structured-output.html; the service model of Bedrock Runtime in botocore 1.44; read 2026-11.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2
from msgspec.structs import replace

from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted, Provider
from providers.adapters.tool_names import ToolNames
from providers.adapters.urls import DIALECT_PATHS
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import CredentialRefused, OperationNotSupported, UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.media import MediaKind
from providers.canonical.output_format import JsonObject, JsonSchema
from providers.canonical.raw_json import Body
from providers.canonical.reclassify_error import reclassify
from providers.canonical.sse import StreamUnwrapper
from providers.credentials import Fetch, Signer
from providers.credentials.aws import AwsSigner, is_ambient
from providers.dialect_rule import DialectRule
from providers.dialects.bedrock_converse.media import is_s3_url
from providers.dialects.bedrock_converse.opaque_blocks import NAME as CONVERSE
from providers.drop_policy import DropPolicy
from providers.host_operation import HostOperation
from providers.hosted.aws.adapter import AWS_OPTIONS, REGION_PLACEHOLDER, AwsHost
from providers.hosted.bedrock.count_tokens import ANTHROPIC_VERSION, BEDROCK_COUNT_TOKENS
from providers.hosted.bedrock.embeddings import BEDROCK_EMBEDDINGS
from providers.hosted.bedrock.event_stream import invoke_stream_unwrapper
from providers.hosted.bedrock.guardrails import GUARDRAIL_OPTION, read_guardrail, set_guardrail
from providers.hosted.rules.claude_hosts import BEDROCK_INVOKE, BEDROCK_MANTLE
from providers.hosted.rules.claude_options import CLAUDE_OPTIONS, read_defaults
from providers.hosted.rules.model_rules import ModelHosting, adapt_open_chat, adapt_to_model, why_no_images
from providers.profiles.bedrock.families import bare_model_id, find_converse_rules, find_family
from providers.profiles.claude import request_body
from providers.profiles.claude.adapt_chat import adapt_claude_chat, is_enforced
from providers.profiles.claude.models import continues_text
from providers.profiles.claude.own_rules import breaks_rules
from providers.profiles.gpt.adapt_request import adapt_request as adapt_gpt_request
from providers.profiles.gpt.adapt_request import tools_rule
from providers.profiles.gpt.models import find_rules as find_gpt_rules
from providers.profiles.gpt.token_limit import use_newer_limit
from providers.structured_output import Constraint, ConstraintPlan

_ANTHROPIC_MESSAGES, _LLAMA = "anthropic_messages", "bedrock_llama"
_RUNTIME_BASE_URL = f"https://bedrock-runtime.{REGION_PLACEHOLDER}.amazonaws.com"
_MANTLE_BASE_URL = f"https://bedrock-mantle.{REGION_PLACEHOLDER}.api.aws"
_APIS = ("converse", "invoke", "mantle")
# Below /model/ID/: without and with streaming.
_OPERATIONS: Mapping[str, tuple[str, str]] = {
    CONVERSE: ("converse", "converse-stream"),
    BEDROCK_COUNT_TOKENS.name: ("count-tokens", "count-tokens"),
}
# How mantle's open models are told not to think is not documented.
_OPEN_MODELS = ModelHosting()
_INVOKE_OPERATIONS = ("invoke", "invoke-with-response-stream")
# Messages for a model that does not exist or is not enabled for this account; their status blames the request or the credential.
_MODEL_NOT_FOUND = re.compile(
    r"model identifier is invalid|on-demand throughput isn.t supported|access to the model|end of its life|model .{0,80}not found", re.I
)


class Bedrock(AwsHost):
    """Amazon Bedrock.

    Without the option `api` it speaks Converse, and Anthropic's own dialect for callers of Messages whose target is Claude.
    """

    name: ClassVar[str] = "bedrock"
    restricted_fields: Mapping[str, str] = {}
    tool_names = (
        ToolNames()
    )  # ToolSpecification.name: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
    service: ClassVar[str] = "bedrock"
    dialects: ClassVar[tuple[str, ...]] = (CONVERSE, _ANTHROPIC_MESSAGES, _LLAMA)
    default_base_url: ClassVar[str | None] = _RUNTIME_BASE_URL
    model_in_url: ClassVar[bool] = True
    adapts_own_dialects: ClassVar[bool] = True
    host_operations: Mapping[str, HostOperation] = {
        "openai_embeddings": BEDROCK_EMBEDDINGS,
        "anthropic_count_tokens": BEDROCK_COUNT_TOKENS,
    }
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **AWS_OPTIONS,
        **CLAUDE_OPTIONS,
        **GUARDRAIL_OPTION,
        "reads_s3": "true: callers may send s3:// URLs, which Bedrock reads with the permissions of this credential (false)",
        "api": '"converse", "invoke" (Claude\'s and Llama\'s dialects) or "mantle" (OpenAI\'s and Claude\'s); default: by request',
    }
    # Models without a field for schemas get theirs in an instruction: adapt_request() marks those as validated.
    constrained_dialects = frozenset({CONVERSE, _ANTHROPIC_MESSAGES})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self._api: str | None = options.get("api")
        if self._api is not None and self._api not in _APIS:
            raise InvalidOption(f"Option api={self._api!r:.100} must be one of {', '.join(_APIS)}.")
        self._defaults = read_defaults(options)
        self._guardrail = read_guardrail(options)
        if self._guardrail and (self._api not in (None, "converse") or self._dialects):
            raise InvalidOption("Option guardrail needs Converse: remove api or dialects.")
        reads_s3 = options.get("reads_s3", False)
        if not isinstance(reads_s3, bool):
            raise InvalidOption("Option reads_s3 must be true or false.")
        self._reads_s3 = reads_s3
        self.claude_host = BEDROCK_MANTLE if self.is_mantle else BEDROCK_INVOKE
        if self.is_mantle:
            self.constrained_dialects = OpenAICompatible.constrained_dialects

    @property
    def is_mantle(self) -> bool:
        return self._api == "mantle"

    @property
    def spoken_dialects(self) -> tuple[str, ...]:
        if self._dialects:
            return self._dialects
        if self._guardrail:  # no other dialect may bypass it
            return (CONVERSE,)
        return ("openai_chat", "openai_responses", _ANTHROPIC_MESSAGES) if self.is_mantle else self.dialects

    def spoken_dialects_for(self, model: str) -> tuple[str, ...]:
        if self._dialects or self._guardrail:
            return self.spoken_dialects
        is_claude = find_family(model).is_claude
        if self.is_mantle:
            return (_ANTHROPIC_MESSAGES,) if is_claude else ("openai_chat", "openai_responses")
        native_dialects = (_ANTHROPIC_MESSAGES,) if is_claude else (_LLAMA,) if find_family(model).name == "Llama" else ()
        match self._api:
            case "converse":
                return (CONVERSE,)
            case "invoke":
                return native_dialects
            case _:
                return (CONVERSE, *native_dialects)

    def dialect_rule_for(self, model: str) -> DialectRule | None:
        """OpenAI's own models take function tools as at OpenAI. Source: litellm 1.110.2, responses/bridge_check.py, read 2026-11."""
        if not self.is_mantle or "openai_responses" not in self.spoken_dialects:
            return None
        rules = find_gpt_rules(model)
        return None if rules is None else tools_rule(rules)

    def display_url(self, base_url: str) -> str:
        return super().display_url(_MANTLE_BASE_URL if self.is_mantle and base_url == _RUNTIME_BASE_URL else base_url)

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        """Colons and slashes in a model id are percent-encoded once."""
        if self.is_mantle:
            root = self.with_region(self.display_url(base_url)).rstrip("/").removesuffix("/v1")
            return httpx2.URL(f"{root}/anthropic/v1/messages" if dialect == _ANTHROPIC_MESSAGES else f"{root}/v1{DIALECT_PATHS[dialect]}")
        if dialect == BEDROCK_COUNT_TOKENS.name:
            model = bare_model_id(model)
        operation = _OPERATIONS.get(dialect, _INVOKE_OPERATIONS)[stream]
        return httpx2.URL(f"{self.with_region(base_url).rstrip('/')}/model/{quote(model, safe='')}/{operation}")

    def complete_url(self, url: httpx2.URL, credential: str | None) -> httpx2.URL:
        return super().complete_url(url, None if credential is not None and _is_api_key(credential) else credential)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """A Bedrock API key is sent as a bearer token; with any other credential requests are signed.

        To the runtime, `accept` is the content type that the model must produce, and not every model supports every type: any will do.
        """
        authorization = [("authorization", f"Bearer {credential}")] if credential is not None and _is_api_key(credential) else []
        if not self.is_mantle:
            return [*authorization, ("accept", "*/*")]
        if dialect != _ANTHROPIC_MESSAGES:
            return authorization
        betas = [("anthropic-beta", ",".join(self._defaults.betas))] if self._defaults.betas else []
        return [*authorization, ("anthropic-version", "2023-06-01"), *betas]

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        if credential is None or _is_api_key(credential):
            return None
        return AwsSigner(credential, "bedrock-mantle" if self.is_mantle else self.service, self.region)

    def inline_media_kinds_in(self, dialect: str) -> frozenset[MediaKind]:
        """Claude on Bedrock fetches no URLs: https://docs.claude.com/en/docs/build-with-claude/vision, read 2026-11."""
        return frozenset({"image", "file"}) if dialect == _ANTHROPIC_MESSAGES else frozenset()

    def accepts_media_url(self, address: str, dialect: str) -> bool:
        """An s3:// URL is read with our credential, not with the caller's: only where the operator allows it."""
        return self._reads_s3 and dialect == CONVERSE and is_s3_url(address)

    def forward_betas(self, body: Body, dialect: str, betas: bytes) -> bytes:
        """The runtime reads betas from the body: there they are added to it, and no header is sent."""
        if self.is_mantle or dialect != _ANTHROPIC_MESSAGES:
            return betas
        request_body.add_betas(body, betas.decode("latin-1").split(","))
        return b""

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        dropped = set_guardrail(self, body, self._guardrail, may_drop) if self._guardrail and dialect == CONVERSE else []
        if self.is_mantle and dialect != _ANTHROPIC_MESSAGES:
            drop_policy = self.drop_policy(body, may_drop)
            adapt_to_model(body, dialect, _OPEN_MODELS, drop_policy)
            _adapt_gpt(body, dialect, drop_policy)
            dropped += drop_policy.dropped
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = dropped
        if dialect == CONVERSE and adapted.constraint_plan is not None and not self._is_enforced_in_converse(adapted.constraint_plan, body):
            adapted.constraint_plan = replace(adapted.constraint_plan, enforcement="validated")
        if dialect == _ANTHROPIC_MESSAGES:
            adapted.dropped += request_body.adapt_body(body, self._defaults)
            adapted.dropped += self._adapt_to_host(body, may_drop)
            if adapted.constraint_plan is not None:
                adapted.constraint_plan = request_body.plan_for_body(adapted.constraint_plan, body)
        return adapted

    def _adapt_to_host(self, body: Body, may_drop: Callable[[str], bool]) -> list[str]:
        assert self.claude_host is not None
        drop_policy = self.drop_policy(body, may_drop)
        self.claude_host.adapt_body(body, str(body.value("model") or ""), drop_policy)
        return drop_policy.dropped

    def must_adapt_as_chat(self, body: Body, dialect: str, model: str) -> bool:
        rules = find_family(model).claude if dialect == _ANTHROPIC_MESSAGES else None
        return rules is not None and breaks_rules(body, rules)

    def _is_enforced_in_converse(self, plan: ConstraintPlan, body: Body) -> bool:
        """Claude gets what it compiles of a schema; of other models Bedrock refuses a schema that they do not take."""
        return "outputConfig" in body and (is_enforced(plan.output) or not find_family(str(body.value("model") or "")).is_claude)

    def continues_text(self, dialect: str, model: str) -> bool:
        return continues_text(dialect, model)

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        """Models' rules are the same on every host."""
        rules = find_converse_rules(chat.model) if dialect == CONVERSE else find_family(chat.model).claude
        if rules is not None:
            return adapt_claude_chat(chat, drop_policy, rules, native="all")
        return adapt_open_chat(chat, drop_policy) if dialect == CONVERSE else super().adapt_chat(chat, dialect, drop_policy)

    def why_no_images(self, model: str) -> str | None:
        return why_no_images(model)

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """Plans a constraint. For Converse the dialect has already written it into the request, or refused or dropped it."""
        if dialect == _ANTHROPIC_MESSAGES and constraint.output is not None and not is_enforced(constraint.output):
            return ConstraintPlan("validated", constraint.output)
        if dialect == CONVERSE and not isinstance(constraint.output, JsonSchema | JsonObject):
            return None
        return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        """Raises OperationNotSupported for a dialect that mantle does not have."""
        if self.is_mantle:
            if dialect not in self.spoken_dialects:
                raise OperationNotSupported(f"{self.configured_as} uses Bedrock's mantle API, which lacks this route.", param="model")
            body["model"] = model
            return
        body.pop("model", None)
        if dialect == _ANTHROPIC_MESSAGES:
            request_body.adapt_for_cloud(body, ANTHROPIC_VERSION, keeps_stream=False)
            request_body.add_betas(body, self._defaults.betas)

    def stream_unwrapper(self, dialect: str) -> StreamUnwrapper | None:
        """Returns None for mantle, and for Converse, whose dialect reads AWS event-stream messages itself."""
        return None if self.is_mantle or dialect == CONVERSE else invoke_stream_unwrapper()

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """An unknown or disabled model is UpstreamNotFound, so that another target is tried, whatever status Bedrock gave it."""
        if self.is_mantle and "x-amzn-errortype" not in headers:
            return Provider.read_error(self, status, headers, body)
        error = super().read_error(status, headers, body)
        if not isinstance(error, CredentialRefused | UpstreamRejected) or not _MODEL_NOT_FOUND.search(error.message):
            return error
        message = error.reason if isinstance(error, CredentialRefused) else error.message
        not_found = reclassify(error, UpstreamNotFound(message, upstream_status=404))
        not_found.upstream_status = error.upstream_status
        return not_found


def _adapt_gpt(body: Body, dialect: str, drop_policy: DropPolicy) -> None:
    """OpenAI's own models on mantle, by OpenAI's rules: see dialect_rule_for()."""
    rules = find_gpt_rules(str(body.value("model") or ""))
    if rules is None:
        return
    adapt_gpt_request(body, dialect, rules, drop_policy)
    if dialect == "openai_chat" and rules.efforts and "max_tokens" in body:
        use_newer_limit(body)


def _is_api_key(credential: str) -> bool:
    """Whether a credential is a Bedrock API key rather than AWS credentials to sign with."""
    return not credential.startswith("{") and not is_ambient(credential)
