"""SageMaker: what TGI's containers answer, from its own tests. None of it passed through AWS; the frames of its streams were made by hand.

So what is replayed proves that payloads are asked for and read as TGI's are, and not that SageMaker is as its documents say.
"""

from typing import Any

from botocore.eventstream import EventStreamBuffer  # pyright: ignore[reportMissingTypeStubs]
from msgspec import structs

from providers.canonical.chat import ChatRequest
from providers.structured_output import JsonSchema
from tests.conformance.situations import Situation
from tests.exchanges.hosts import plain_openai
from tests.exchanges.hosts.host import Host, Plain, Reached, Refusal
from tests.exchanges.hosts.recordings import Recording, recordings

_SECRET = '{"access_key_id": "AKIDEXAMPLE", "secret_access_key": "a-secret-of-a-test-1234567890", "region": "eu-west-1"}'


_EMBEDDINGS = "c04-embeddings"


def _reached(recording: Recording) -> Reached:
    container = "tgi" if "tgi" in recording.name else "vllm"
    return Reached(adapter="sagemaker", model="endpoint-name", options={"container": container}, secret=_SECRET)


def _plain(recording: Recording) -> Plain | None:
    if recording.name != _EMBEDDINGS:
        return None

    def check(told: Any) -> None:
        assert (told["data"], told["usage"]) == (recording.body["data"], recording.body["usage"])

    return Plain("/v1/embeddings", recording.asked, check)


def _chat(recording: Recording) -> ChatRequest | None:
    """TGI's own word for a schema is not OpenAI's."""
    if recording.name == _EMBEDDINGS:
        return None
    asked = dict(recording.asked)
    format = asked.pop("response_format", None)
    chat = plain_openai.chat_of(structs.replace(recording, asked=asked))
    return chat if format is None else structs.replace(chat, output=JsonSchema(plain_openai.raw(format["value"])))


def _expected(recording: Recording) -> Situation:
    """Frames are taken off by botocore, which knows nothing of ours."""
    if not recording.streamed:
        return plain_openai.situation_of(recording)
    buffer: Any = EventStreamBuffer()
    buffer.add_data(recording.raw)
    return plain_openai.situation_of(structs.replace(recording, raw=b"".join(message.payload for message in buffer)))


def _alike(body: Any) -> Any:
    """The recorded TGI took a bare schema, and called it an object; that of today takes its name beside it (/reference/engines.md 2.1)."""
    if "input" in body:
        return body
    told = plain_openai.alike(body)
    if "response_format" in told:
        value = told["response_format"]["value"]
        told["response_format"] = value.get("schema", value)
    return told


SAGEMAKER = Host(
    folder="aws_sagemaker",
    recordings=recordings("aws_sagemaker", "payload-only", "constructed-framing"),
    reached=_reached,
    chat=_chat,
    plain=_plain,
    expected=_expected,
    alike=_alike,
    refusals={"c03-error-of-container": Refusal(429, "ModelError")},
    lacks={
        "documents": "no engine that is known to be in its containers reads any in a chat",
        "citations": "engines in containers cite nothing",
        "safety stops": "engines in containers look for nothing unsafe",
        "token counting": "its runtime has no such call",
    },
    # The recorder's word for it can be no endpoint's.
    path=lambda path: path.replace("ENDPOINT_NAME", "endpoint-name"),
)

HOSTS = (SAGEMAKER,)
