"""Amazon SageMaker: containers of one's own behind AWS's door. Each speaks what its image speaks: `payload` says which that is.

Sources: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointWithResponseStream.html, botocore's service
model of sagemaker-runtime (2017-05-13), /reference/providers.md 4; read 2026-11.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import httpx

from providers import guided
from providers.engines.lmdeploy import LMDeploy
from providers.engines.sglang import SGLang
from providers.engines.tgi import TGI
from providers.engines.vllm import VLLM
from providers.errors import Missing
from providers.guided import Constraint, Guiding, How
from providers.hosted.aws import AWS_OPTIONS, REGION, AwsHost
from providers.hosted.sagemaker_streams import LinesUnwrapping, unwrapping
from providers.provider import BadOption, Bent, Provider
from providers.wire import Body, Unwrapping

# The dialects that a container takes on its one route, which it tells from the body: best first.
_PAYLOADS: Mapping[str, tuple[str, ...]] = {
    "openai_chat": ("openai_chat", "openai_completions", "openai_embeddings"),
    "openai_completions": ("openai_completions",),
    "tgi_generate": ("tgi_generate",),
    "lmi": ("openai_chat", "lmi_generate"),
}
_CONTAINERS: Mapping[str, type[Provider]] = {each.name: each for each in (VLLM, SGLang, LMDeploy, TGI)}
_ROUTING: Mapping[str, str] = {
    "target_model": "x-amzn-sagemaker-target-model",
    "target_variant": "x-amzn-sagemaker-target-variant",
    "target_container": "x-amzn-sagemaker-target-container-hostname",
    "inference_component": "x-amzn-sagemaker-inference-component",
    "custom_attributes": "x-amzn-sagemaker-custom-attributes",
}
# TGI's own grammars. Outlines passes over keywords of schemas (/reference/engines.md 2.5), and obeys regexes.
_GRAMMARS: Mapping[guided.Kind, How] = {"json_schema": "validated", "regex": "enforced", "choice": "converted"}
_ENDPOINT = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}")


class SageMaker(AwsHost):
    """The target's model is the endpoint's name. What the container calls its model is an option, for few want to be told."""

    name: ClassVar[str] = "sagemaker"
    service: ClassVar[str] = "sagemaker"
    dialects: ClassVar[tuple[str, ...]] = _PAYLOADS["openai_chat"]
    default_base_url: ClassVar[str | None] = f"https://runtime.sagemaker.{REGION}.amazonaws.com"
    addresses_models: ClassVar[bool] = True
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        **AWS_OPTIONS,
        "payload": f"what the container speaks: {', '.join(_PAYLOADS)} (the first, unless it is said)",
        "container": f"the engine in the container, whose ways are then kept: {', '.join(_CONTAINERS)}; without it nothing is known of it",
        "model": "what the container calls its model, for those that want it in the body; it is left out otherwise",
        "target_model": "the model of a multi-model endpoint to ask; such endpoints do not stream",
        "target_variant": "the production variant to ask",
        "target_container": "the host name of the container to ask, of an endpoint with several",
        "inference_component": "the inference component to ask",
        "custom_attributes": "what the container is to be told in the header X-Amzn-SageMaker-Custom-Attributes",
    }

    guided_in = Provider.guided_in | {"tgi_generate"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        self._payload = _chosen(configured_as, options, "payload", _PAYLOADS) or "openai_chat"
        container = _chosen(configured_as, options, "container", _CONTAINERS)
        for option in ("model", *_ROUTING):
            said = options.get(option, "-")
            if not isinstance(said, str) or not said or not said.isascii() or not said.isprintable():
                raise BadOption(f"Option {option} of provider {configured_as!r} must be a text of visible characters.")
        self._model: str | None = options.get("model")
        self._headers = [(header, options[option]) for option, header in _ROUTING.items() if option in options]
        self._engine: Provider | None = None
        if container is not None:
            theirs = {key: value for key, value in options.items() if key in Provider.known_options}
            self._engine = _CONTAINERS[container](configured_as, theirs, None, base_url)
            self.guided_in |= self._engine.guided_in
            # Of each engine it is the same for all its instances; here it is as the container is.
            self.stops_after_calls = self._engine.stops_after_calls  # pyright: ignore[reportAttributeAccessIssue]
            self.no_limit = self._engine.no_limit  # pyright: ignore[reportAttributeAccessIssue]
        if "target_model" in options:
            self.streams = "never"
        if self._payload == "lmi":
            self.stream_usage = False

    @property
    def spoken(self) -> tuple[str, ...]:
        return self._dialects or _PAYLOADS[self._payload]

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        """Raises Missing for a name that no endpoint can have."""
        if _ENDPOINT.fullmatch(model) is None:
            raise Missing(f"{model!r:.100} can be no endpoint of SageMaker.", told=404)
        way = "invocations-response-stream" if stream else "invocations"
        return httpx.URL(f"{self.at_region(base_url).rstrip('/')}/endpoints/{quote(model, safe='')}/{way}")

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        return list(self._headers)

    def name_model(self, body: Body, dialect: str, model: str, stream: bool) -> None:
        body.pop("model", None)
        if self._model is not None:
            body["model"] = self._model

    def unwrapping(self, dialect: str) -> Unwrapping | None:
        return LinesUnwrapping() if self._payload == "lmi" and dialect == "openai_chat" else unwrapping()

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        if self._engine is not None and dialect in self._engine.dialects:
            return self._engine.bend(body, dialect, may_drop, constraint)
        return super().bend(body, dialect, may_drop, constraint)

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """Of a prompt the constraint is in the ask already; one that cannot be said there was refused, or let go, as it was written."""
        output = constraint.output
        if dialect not in ("tgi_generate", "lmi_generate") or output is None:
            return super().guiding(constraint, dialect, as_said=as_said)
        how = _GRAMMARS.get(guided.kind_of(output)) if dialect == "tgi_generate" else None
        if how is None:
            return None
        return Guiding("enforced" if how == "validated" and self.vouched else how, output)


def _chosen(configured_as: str, options: Mapping[str, Any], option: str, known: Mapping[str, object]) -> str | None:
    said = options.get(option)
    if said is not None and said not in known:
        raise BadOption(f"Option {option}={said!r:.100} of provider {configured_as!r} may be {', '.join(known)}.")
    return said
