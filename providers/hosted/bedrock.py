"""Amazon Bedrock: models of many makers behind one door, asked by Converse, or in their makers' own words.

Sources: /reference/providers.md parts 1 to 6; https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html,
.../inference-messages-api.html and .../structured-output.html; the service model of Bedrock Runtime in botocore 1.44; read 2026-11.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import httpx
from msgspec.structs import replace

from providers import guided
from providers.chat import ChatRequest
from providers.credentials import Fetch, Signer
from providers.credentials.aws import AwsSigner, is_ambient
from providers.dialect import Concessions
from providers.dialects.bedrock_converse.families import plain_id, read_family
from providers.dialects.bedrock_converse.media import is_in_bucket
from providers.dialects.bedrock_converse.sealed import NAME as CONVERSE
from providers.errors import CredentialRefused, Missing, NotOffered, Refused, UpstreamError
from providers.foreign import Foreign
from providers.guided import Constraint, Guiding
from providers.hosted import claude
from providers.hosted.aws import AWS_OPTIONS, REGION, AwsHost
from providers.hosted.bedrock_counting import BEDROCK_COUNTING
from providers.hosted.bedrock_embeddings import BEDROCK_EMBEDDINGS
from providers.hosted.bedrock_guardrails import GUARDRAIL_OPTION, put_guardrail, read_guardrail
from providers.hosted.bedrock_streams import unwrapping
from providers.hosted.claude_rules import bend_claude_chat, is_held
from providers.media import Kind
from providers.provider import PATHS, BadOption, Bent, Provider
from providers.wire import Body, Unwrapping

_MESSAGES, _LLAMA = "anthropic_messages", "bedrock_llama"
_RUNTIME = f"https://bedrock-runtime.{REGION}.amazonaws.com"
_MANTLE = f"https://bedrock-mantle.{REGION}.api.aws"
_APIS = ("converse", "invoke", "mantle")
_VERSION = "bedrock-2023-05-31"
# Below /model/ID/: whole, and as a stream.
_WAYS: Mapping[str, tuple[str, str]] = {
    CONVERSE: ("converse", "converse-stream"),
    BEDROCK_COUNTING.name: ("count-tokens", "count-tokens"),
}
_INVOKE = ("invoke", "invoke-with-response-stream")
# What it says of a model that it has not, or not for this account, with words for what was asked, or for the credential.
_NO_MODEL = re.compile(
    r"model identifier is invalid|on-demand throughput isn.t supported|access to the model|end of its life|model .{0,80}not found", re.I
)


class Bedrock(AwsHost):
    """`api` unsaid: Converse, and for callers of Anthropic's dialect who ask Claude, Claude's own words."""

    name: ClassVar[str] = "bedrock"
    service: ClassVar[str] = "bedrock"
    dialects: ClassVar[tuple[str, ...]] = (CONVERSE, _MESSAGES, _LLAMA)
    default_base_url: ClassVar[str | None] = _RUNTIME
    addresses_models: ClassVar[bool] = True
    foreign: ClassVar[Mapping[str, Foreign]] = {"openai_embeddings": BEDROCK_EMBEDDINGS, "anthropic_count_tokens": BEDROCK_COUNTING}
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **AWS_OPTIONS,
        **claude.OPTIONS,
        **GUARDRAIL_OPTION,
        "reads_s3": "true: callers may give s3:// addresses, which Bedrock reads with what this credential may do (false)",
        "api": '"converse", "invoke" (Claude\'s and Llama\'s own words) or "mantle" (OpenAI\'s, and Claude\'s); without it what suits best',
    }
    # What is asked in words alone, for models that have no field for a schema, bend() tells.
    guided_in = frozenset({CONVERSE, _MESSAGES})

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        self._api: str | None = options.get("api")
        if self._api is not None and self._api not in _APIS:
            raise BadOption(f"Option api={self._api!r:.100} of provider {configured_as!r} may be {', '.join(_APIS)}.")
        self._demands = claude.read_demands(configured_as, options)
        self._guardrail = read_guardrail(configured_as, options)
        if self._guardrail and (self._api not in (None, "converse") or self._dialects):
            raise BadOption(f"Option guardrail of provider {configured_as!r}: it is for Converse, and for no other API or dialect.")
        reads_s3 = options.get("reads_s3", False)
        if not isinstance(reads_s3, bool):
            raise BadOption(f"Option reads_s3 of provider {configured_as!r} may be true or false.")
        self._reads_s3 = reads_s3
        if self.at_mantle:
            self.guided_in = Provider.guided_in

    @property
    def at_mantle(self) -> bool:
        return self._api == "mantle"

    @property
    def spoken(self) -> tuple[str, ...]:
        if self._dialects:
            return self._dialects
        if self._guardrail:  # which nobody is to go round by another dialect
            return (CONVERSE,)
        return ("openai_chat", "openai_responses", _MESSAGES) if self.at_mantle else self.dialects

    def spoken_for(self, model: str) -> tuple[str, ...]:
        if self._dialects or self._guardrail:
            return self.spoken
        is_claude = read_family(model).is_claude
        if self.at_mantle:
            return (_MESSAGES,) if is_claude else ("openai_chat", "openai_responses")
        own = (_MESSAGES,) if is_claude else (_LLAMA,) if read_family(model).name == "Llama" else ()
        match self._api:
            case "converse":
                return (CONVERSE,)
            case "invoke":
                return own
            case _:
                return (CONVERSE, *own)

    def place(self, base_url: str) -> str:
        return super().place(_MANTLE if self.at_mantle and base_url == _RUNTIME else base_url)

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        """Colons and slashes of a model's name are escaped once, and stay so."""
        if self.at_mantle:
            root = self.at_region(self.place(base_url)).rstrip("/").removesuffix("/v1")
            return httpx.URL(f"{root}/anthropic/v1/messages" if dialect == _MESSAGES else f"{root}/v1{PATHS[dialect]}")
        if dialect == BEDROCK_COUNTING.name:
            model = plain_id(model)
        way = _WAYS.get(dialect, _INVOKE)[stream]
        return httpx.URL(f"{self.at_region(base_url).rstrip('/')}/model/{quote(model, safe='')}/{way}")

    def located(self, url: httpx.URL, credential: str | None) -> httpx.URL:
        return super().located(url, None if credential is not None and _is_key(credential) else credential)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        """A key of Bedrock's own is shown; with any other credential requests are signed.

        To its runtime, `accept` says in which type a model shall answer, and not every model knows them all.
        """
        told = [("authorization", f"Bearer {credential}")] if credential is not None and _is_key(credential) else []
        if not self.at_mantle:
            return [*told, ("accept", "*/*")]
        if dialect != _MESSAGES:
            return told
        betas = [("anthropic-beta", ",".join(self._demands.betas))] if self._demands.betas else []
        return [*told, ("anthropic-version", "2023-06-01"), *betas]

    def signer(self, credential: str | None, fetch: Fetch) -> Signer | None:
        if credential is None or _is_key(credential):
            return None
        return AwsSigner(credential, "bedrock-mantle" if self.at_mantle else self.service, self.region)

    def bytes_only_in(self, dialect: str) -> frozenset[Kind]:
        """Its Claude fetches nothing: https://docs.claude.com/en/docs/build-with-claude/vision, read 2026-11."""
        return frozenset({"image", "file"}) if dialect == _MESSAGES else frozenset()

    def takes_address(self, address: str, dialect: str) -> bool:
        """Whoever names an object reads it by our credential, not by one of their own: that is the operator's to allow."""
        return self._reads_s3 and dialect == CONVERSE and is_in_bucket(address)

    def tell_betas(self, body: Body, dialect: str, betas: bytes) -> bytes:
        """Its runtime reads them in the body."""
        if self.at_mantle or dialect != _MESSAGES:
            return betas
        claude.say_betas(body, betas.decode("latin-1").split(","))
        return b""

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        dropped = put_guardrail(self, body, self._guardrail, may_drop) if self._guardrail and dialect == CONVERSE else []
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = dropped
        if dialect == CONVERSE and bent.guiding is not None and "outputConfig" not in body:
            bent.guiding = replace(bent.guiding, how="validated")
        if dialect == _MESSAGES:
            bent.dropped += claude.hold(body, self._demands)
        return bent

    def bend_chat(self, chat: ChatRequest, dialect: str, concessions: Concessions) -> ChatRequest:
        """The rules of Claude's models are the same on every host."""
        return bend_claude_chat(chat, concessions) if dialect == _MESSAGES else super().bend_chat(chat, dialect, concessions)

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """In Converse the constraint is in the ask already; one that cannot be said there was refused, or let go, as it was written."""
        if dialect == _MESSAGES and constraint.output is not None and not is_held(constraint.output):
            return Guiding("validated", constraint.output)
        if dialect == CONVERSE and not isinstance(constraint.output, guided.JsonSchema | guided.JsonObject):
            return None
        return super().guiding(constraint, dialect, as_said=as_said)

    def name_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        """Raises NotOffered for what mantle has not."""
        if self.at_mantle:
            if dialect not in self.spoken:
                raise NotOffered(f"{self.configured_as} is Bedrock's mantle, which has no API for such requests.", param="model")
            body["model"] = model
            return
        body.pop("model", None)
        if dialect == _MESSAGES:
            claude.fit(body, _VERSION, says_stream=False)
            claude.say_betas(body, self._demands.betas)

    def unwrapping(self, dialect: str) -> Unwrapping | None:
        """Converse is read in AWS's own messages."""
        return None if self.at_mantle or dialect == CONVERSE else unwrapping()

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A model that is not there, or not for this account, says nothing against the request or the credential."""
        if self.at_mantle and "x-amzn-errortype" not in headers:
            return Provider.read_error(self, status, headers, body)
        error = super().read_error(status, headers, body)
        if not isinstance(error, CredentialRefused | Refused) or not _NO_MODEL.search(error.message):
            return error
        missing = Missing(error.reason if isinstance(error, CredentialRefused) else error.message, told=404)
        missing.told, missing.said_code = error.told, error.said_code
        return missing


def _is_key(credential: str) -> bool:
    """Whether it is a Bedrock API key, and nothing to sign with."""
    return not credential.startswith("{") and not is_ambient(credential)
