"""SageMaker: what TGI's containers answer, from its own tests. None of it passed through AWS; the frames of its streams were made by hand.

So what is replayed proves that payloads are asked for and read as TGI's are, and not that SageMaker is as its documents say.
"""

from typing import Any

from botocore.eventstream import EventStreamBuffer  # pyright: ignore[reportMissingTypeStubs]
from msgspec import structs

from providers.canonical.chat import ChatRequest
from providers.structured_output import JsonSchema
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
    """TGI's own word for a schema is not OpenAI's."""
    if recording.name == _EMBEDDINGS:
        return None
    request_body = dict(recording.request_body)
    format = request_body.pop("response_format", None)
    chat = openai_compatible_bodies.chat_of(structs.replace(recording, request_body=request_body))
    return chat if format is None else structs.replace(chat, output=JsonSchema(openai_compatible_bodies.raw(format["value"])))


def _expected(recording: Recording) -> Situation:
    """Frames are taken off by botocore, which knows nothing of ours."""
    if not recording.streamed:
        return openai_compatible_bodies.situation_of(recording)
    buffer: Any = EventStreamBuffer()
    buffer.add_data(recording.raw)
    return openai_compatible_bodies.situation_of(structs.replace(recording, raw=b"".join(message.payload for message in buffer)))


def _normalize(body: Any) -> Any:
    """The recorded TGI took a bare schema, and called it an object; that of today takes its name beside it (/reference/engines.md 2.1)."""
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
        "documents": "no engine that is known to be in its containers reads any in a chat",
        "citations": "engines in containers cite nothing",
        "safety stops": "engines in containers look for nothing unsafe",
        "token counting": "its runtime has no such call",
    },
    # The recorder's word for it can be no endpoint's.
    normalize_path=lambda path: path.replace("ENDPOINT_NAME", "endpoint-name"),
)

HOSTS = (SAGEMAKER,)
