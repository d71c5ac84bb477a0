"""The recordings of Bedrock: Converse, Claude's and Llama's own words by InvokeModel, Cohere's embeddings, and Responses at its mantle."""

from typing import Any
from urllib.parse import unquote

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import Situation
from tests.exchanges.hosts import bedrock_bodies, plain_anthropic, responses_bodies
from tests.exchanges.hosts.host import Host, Plain, Reached, Refusal
from tests.exchanges.hosts.recordings import Recording, recordings

_LLAMA, _EMBEDDINGS, _MANTLE, _CLAUDE = "28-invoke-llama", "32-embeddings-cohere", "29-mantle-responses", "24-invoke-anthropic"
_OF_LLAMA = (("prompt", "prompt"), ("max_tokens", "max_gen_len"), ("temperature", "temperature"), ("top_p", "top_p"))
_S3, _GUARDED = "33-error-400-a", "22-converse-guardrail-stream"


def _reached(recording: Recording) -> Reached:
    if recording.name == _MANTLE:
        return Reached(adapter="bedrock", model=recording.asked["model"], options={"api": "mantle"}, dialect="openai_responses")
    model = unquote(recording.path.split("/")[2])
    api = "converse" if "/converse" in recording.path else "invoke"
    reads_s3 = {"reads_s3": True} if recording.name == _S3 else {}
    return Reached(adapter="bedrock", model=model, options={"api": api, "region": "us-east-1", **reads_s3})


def _chat(recording: Recording) -> ChatRequest | None:
    match recording.name:
        case name if name in (_LLAMA, _EMBEDDINGS):
            return None
        case name if name == _MANTLE:
            return responses_bodies.chat_of(recording)
        case name if name == _CLAUDE:
            return plain_anthropic.chat_of(recording)
        case _:
            return bedrock_bodies.chat_of(recording)


def _expected(recording: Recording) -> Situation:
    match recording.name:
        case name if name == _MANTLE:
            return responses_bodies.situation_of(recording)
        case name if name == _CLAUDE:
            return plain_anthropic.situation_of(recording)
        case _:
            return bedrock_bodies.situation_of(recording)


def _alike(body: Any) -> Any:
    if "anthropic_version" in body:
        return plain_anthropic.alike(body)
    if "input" in body:
        return responses_bodies.alike(body)
    return bedrock_bodies.alike(body)


def _plain(recording: Recording) -> Plain | None:
    match recording.name:
        case name if name == _LLAMA:
            asked = recording.asked
            ask = {
                "prompt": asked["prompt"],
                "max_tokens": asked["max_gen_len"],
                "temperature": asked["temperature"],
                "top_p": asked["top_p"],
            }
            return Plain("/v1/completions", ask, _check_llama(recording))
        case name if name == _EMBEDDINGS:
            return Plain("/v1/embeddings", {"input": recording.asked["texts"]}, _check_embeddings(recording))
        case _:
            return None


def _check_llama(recording: Recording) -> Any:
    def check(told: Any) -> None:
        (choice,) = told["choices"]
        assert (choice["text"], choice["finish_reason"]) == (recording.body["generation"], recording.body["stop_reason"])
        read, written = recording.body["prompt_token_count"], recording.body["generation_token_count"]
        assert (told["usage"]["prompt_tokens"], told["usage"]["completion_tokens"]) == (read, written)

    return check


def _check_embeddings(recording: Recording) -> Any:
    def check(told: Any) -> None:
        assert [each["embedding"] for each in told["data"]] == recording.body["embeddings"]["float"]
        assert told["usage"]["prompt_tokens"] == int(recording.headers["x-amzn-bedrock-input-token-count"])

    return check


def _said_how_much(body: Any) -> Any:
    return {**body, "inferenceConfig": {**body.get("inferenceConfig", {}), "maxTokens": bedrock_bodies.MAX_TOKENS}}


def _plain_texts(body: Any) -> Any:
    (turn,) = body["messages"]
    texts = [{"text": each["guardContent"]["text"]["text"]} for each in turn["content"]]
    return {**body, "messages": [{**turn, "content": texts}]}


def _any_length(body: Any) -> Any:
    return {key: value for key, value in body.items() if key != "output_dimension"}


ALL = recordings("aws_bedrock")
HOST = Host(
    folder="aws_bedrock",
    recordings=ALL,
    reached=_reached,
    chat=_chat,
    plain=_plain,
    expected=_expected,
    alike=_alike,
    path=unquote,
    refusals={
        _S3: Refusal(400),
        "36-error-400-d": Refusal(400, "ValidationException"),
        "37-error-403": Refusal(502, "UnrecognizedClientException"),
        "c04-error-429": Refusal(429, "ThrottlingException"),
    },
    differs={
        **{
            each.name: ("Anthropic's callers, who alone can say this, always say how much may be written", _said_how_much)
            for each in ALL
            if "/converse" in each.path and bedrock_bodies.is_anthropics(each)
        },
        _GUARDED: ("callers have no word for what a guardrail is to look at: it looks at all", _plain_texts),
        _EMBEDDINGS: ("the recording's vectors were cut, and are not of the length that was asked for", _any_length),
    },
)

HOSTS = (HOST,)
