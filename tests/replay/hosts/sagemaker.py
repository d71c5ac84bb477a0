"""SageMaker: responses of TGI containers, from TGI's own tests. None of it passed through AWS; the frames of the streams are constructed.

Replaying it therefore shows that payloads are written and read as TGI's are, not that SageMaker works as documented.
"""

from typing import Any

from botocore.eventstream import EventStreamBuffer  # pyright: ignore[reportMissingTypeStubs]
from msgspec import structs

from providers.canonical.chat import ChatRequest
from providers.canonical.output_format import JsonSchema
from tests.conformance.situations import Situation
from tests.replay.hosts import openai_compatible_bodies
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings

_SECRET = '{"access_key_id": "AKIDEXAMPLE", "secret_access_key": "a-secret-of-a-test-1234567890", "region": "eu-west-1"}'


_EMBEDDINGS = "c04-embeddings"


def _provider_target(recording: Recording) -> ProviderTarget:
    container = "tgi" if "tgi" in recording.name else "vllm"
    return ProviderTarget(adapter="sagemaker", model="endpoint-name", options={"container": container}, secret=_SECRET)


def _embeddings(recording: Recording) -> NonChatRequest | None:
    if recording.name != _EMBEDDINGS:
        return None

    def check(response: Any) -> None:
        assert (response["data"], response["usage"]) == (recording.body["data"], recording.body["usage"])

    return NonChatRequest("/v1/embeddings", recording.request_body, check)


def _chat(recording: Recording) -> ChatRequest | None:
    """The request; TGI's field for a schema differs from OpenAI's."""
    if recording.name == _EMBEDDINGS:
        return None
    request_body = dict(recording.request_body)
    format = request_body.pop("response_format", None)
    chat = openai_compatible_bodies.chat_of(structs.replace(recording, request_body=request_body))
    return chat if format is None else structs.replace(chat, output=JsonSchema(openai_compatible_bodies.raw(format["value"])))


def _expected(recording: Recording) -> Situation:
    """The response; the frames of a stream are decoded by botocore, independent of providers/."""
    if not recording.streamed:
        return openai_compatible_bodies.situation_of(recording)
    buffer: Any = EventStreamBuffer()
    buffer.add_data(recording.raw)
    return openai_compatible_bodies.situation_of(structs.replace(recording, raw=b"".join(message.payload for message in buffer)))


def _normalize(body: Any) -> Any:
    """Returns a body that compares across versions of TGI.

    The recorded one took a bare schema, the current one also takes its name (docs/sources.md#tgi).
    """
    if "input" in body:
        return body
    normalized = openai_compatible_bodies.normalize(body)
    if "response_format" in normalized:
        value = normalized["response_format"]["value"]
        normalized["response_format"] = value.get("schema", value)
    return normalized


SAGEMAKER = Host(
    folder="aws_sagemaker",
    recordings=recordings("aws_sagemaker", "payload-only", "constructed-framing"),
    provider_target=_provider_target,
    chat=_chat,
    non_chat=_embeddings,
    expected=_expected,
    normalize=_normalize,
    expected_errors={"c03-error-of-container": ExpectedError(429, "ModelError")},
    missing_features={
        "documents": "no engine in its known containers reads documents in a chat",
        "citations": "engines in containers have no citations",
        "safety stops": "engines in containers have no safety filter",
        "token counting": "its runtime has no call that counts tokens",
    },
    # The recorder's placeholder is not a valid endpoint name.
    normalize_path=lambda path: path.replace("ENDPOINT_NAME", "endpoint-name"),
)

HOSTS = (SAGEMAKER,)
