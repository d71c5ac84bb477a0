"""Amazon SageMaker: endpoints that run one's own containers. The option `payload` names the dialect of the container.

Sources: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointWithResponseStream.html, botocore's service
model of sagemaker-runtime (2017-05-13), docs/sources.md#sagemaker; read 2026-11.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2

from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted, Provider
from providers.canonical.errors import UpstreamNotFound
from providers.canonical.output_format import OutputKind, output_kind
from providers.canonical.raw_json import Body
from providers.canonical.sse import StreamUnwrapper
from providers.engines.lmdeploy.adapter import LMDeploy
from providers.engines.sglang.adapter import SGLang
from providers.engines.tgi.adapter import TGI
from providers.engines.vllm.adapter import VLLM
from providers.hosted.aws.adapter import AWS_OPTIONS, REGION_PLACEHOLDER, AwsHost
from providers.hosted.sagemaker.event_stream import JsonLinesUnwrapper, payload_unwrapper
from providers.structured_output import Constraint, ConstraintPlan, Enforcement

# The dialects that a container accepts on its single route, best first: it detects them by the body.
_DIALECTS_BY_PAYLOAD: Mapping[str, tuple[str, ...]] = {
    "openai_chat": ("openai_chat", "openai_completions", "openai_embeddings"),
    "openai_completions": ("openai_completions",),
    "tgi_generate": ("tgi_generate",),
    "lmi": ("openai_chat", "lmi_generate"),
}
_ENGINE_BY_CONTAINER: Mapping[str, type[Provider]] = {each.name: each for each in (VLLM, SGLang, LMDeploy, TGI)}
_ROUTING_HEADERS: Mapping[str, str] = {
    "target_model": "x-amzn-sagemaker-target-model",
    "target_variant": "x-amzn-sagemaker-target-variant",
    "target_container": "x-amzn-sagemaker-target-container-hostname",
    "inference_component": "x-amzn-sagemaker-inference-component",
    "custom_attributes": "x-amzn-sagemaker-custom-attributes",
}
# TGI's own grammars. Outlines ignores keywords of schemas (docs/sources.md#outlines), and enforces regexes.
_TGI_GRAMMAR_SUPPORT: Mapping[OutputKind, Enforcement] = {
    "json_schema": "validated",
    "regex": "enforced",
    "choice": "converted",
}
_ENDPOINT_NAME = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}")


class SageMaker(AwsHost):
    """The target's model is the name of the endpoint. The model's name in the container is an option, as few containers need it."""

    name: ClassVar[str] = "sagemaker"
    is_self_hosted: bool = True
    gets_trace: ClassVar[bool | None] = False  # AWS reads the headers, and passes none of them on
    service: ClassVar[str] = "sagemaker"
    dialects: ClassVar[tuple[str, ...]] = _DIALECTS_BY_PAYLOAD["openai_chat"]
    default_base_url: ClassVar[str | None] = f"https://runtime.sagemaker.{REGION_PLACEHOLDER}.amazonaws.com"
    model_in_url: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **AWS_OPTIONS,
        "payload": f"the dialect of the container: {', '.join(_DIALECTS_BY_PAYLOAD)} (the first)",
        "container": f"the engine in the container, whose adapter is then used: {', '.join(_ENGINE_BY_CONTAINER)}; default: unknown",
        "model": "the model's name in the container, for containers that need it in the body; default: none is sent",
        "target_model": "the model of a multi-model endpoint; such endpoints do not stream",
        "target_variant": "the production variant",
        "target_container": "the host name of the container, for an endpoint with several",
        "inference_component": "the inference component",
        "custom_attributes": "the value of the header X-Amzn-SageMaker-Custom-Attributes",
    }

    constrained_dialects = OpenAICompatible.constrained_dialects | {"tgi_generate"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        self._payload = _choose_option(options, "payload", _DIALECTS_BY_PAYLOAD) or "openai_chat"
        container = _choose_option(options, "container", _ENGINE_BY_CONTAINER)
        for option in ("model", *_ROUTING_HEADERS):
            option_value = options.get(option, "-")
            if not isinstance(option_value, str) or not option_value or not option_value.isascii() or not option_value.isprintable():
                raise InvalidOption(f"Option {option} must be a text of printable ASCII characters.")
        self._model: str | None = options.get("model")
        self._headers = [(header, options[option]) for option, header in _ROUTING_HEADERS.items() if option in options]
        self._engine: Provider | None = None
        if container is not None:
            engine_options = {key: value for key, value in options.items() if key in Provider.known_options}
            self._engine = _ENGINE_BY_CONTAINER[container](configured_as, engine_options, None, base_url)
            self.constrained_dialects |= self._engine.constrained_dialects
            # Class variables of engines; here they depend on the container.
            self.stops_after_calls = self._engine.stops_after_calls  # pyright: ignore[reportAttributeAccessIssue]
            self.no_limit_fields = self._engine.no_limit_fields  # pyright: ignore[reportAttributeAccessIssue]
        if "target_model" in options:
            self.streams = "never"
        if self._payload == "lmi":
            self.stream_usage = False

    @property
    def spoken_dialects(self) -> tuple[str, ...]:
        return self._dialects or _DIALECTS_BY_PAYLOAD[self._payload]

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        """Raises UpstreamNotFound for a name that is not valid for an endpoint."""
        if _ENDPOINT_NAME.fullmatch(model) is None:
            raise UpstreamNotFound(f"{model!r:.100} is not a valid name of a SageMaker endpoint.", upstream_status=404)
        operation = "invocations-response-stream" if stream else "invocations"
        return httpx2.URL(f"{self.with_region(base_url).rstrip('/')}/endpoints/{quote(model, safe='')}/{operation}")

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return list(self._headers)

    def set_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        body.pop("model", None)
        if self._model is not None:
            body["model"] = self._model

    def stream_unwrapper(self, dialect: str) -> StreamUnwrapper | None:
        return JsonLinesUnwrapper() if self._payload == "lmi" and dialect == "openai_chat" else payload_unwrapper()

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if self._engine is not None and dialect in self._engine.dialects:
            return self._engine.adapt_request(body, dialect, may_drop, constraint)
        return super().adapt_request(body, dialect, may_drop, constraint)

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """Plans a constraint. Dialects of plain prompts have already written it into the request, or refused or dropped it."""
        output = constraint.output
        if dialect not in ("tgi_generate", "lmi_generate") or output is None:
            return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        enforcement = _TGI_GRAMMAR_SUPPORT.get(output_kind(output)) if dialect == "tgi_generate" else None
        if enforcement is None:
            return None
        return ConstraintPlan("enforced" if enforcement == "validated" and self.trusted else enforcement, output)


def _choose_option(options: Mapping[str, Any], option: str, known: Mapping[str, object]) -> str | None:
    choice = options.get(option)
    if choice is not None and choice not in known:
        raise InvalidOption(f"Option {option}={choice!r:.100} must be one of {', '.join(known)}.")
    return choice
