"""Bedrock: Converse, InvokeModel for Claude, Llama and Cohere's embeddings, and Responses at the mantle endpoint."""

import copy
import json
from typing import Any
from urllib.parse import unquote

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import Situation
from tests.replay.hosts import anthropic_messages_bodies, bedrock_bodies, openai_responses_bodies
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings

_LLAMA, _EMBEDDINGS, _MANTLE, _CLAUDE = "28-invoke-llama", "32-embeddings-cohere", "29-mantle-responses", "24-invoke-anthropic"
_LLAMA_FIELDS = (("prompt", "prompt"), ("max_tokens", "max_gen_len"), ("temperature", "temperature"), ("top_p", "top_p"))
_S3, _GUARDRAIL, _SCHEMA = "33-error-400-a", "22-converse-guardrail-stream", "14-converse-structured-output"


def _provider_target(recording: Recording) -> ProviderTarget:
    if recording.name == _MANTLE:
        return ProviderTarget(
            adapter="bedrock", model=recording.request_body["model"], options={"api": "mantle"}, dialect="openai_responses"
        )
    model = unquote(recording.path.split("/")[2])
    api = "converse" if "/converse" in recording.path else "invoke"
    reads_s3 = {"reads_s3": True} if recording.name == _S3 else {}
    return ProviderTarget(adapter="bedrock", model=model, options={"api": api, "region": "us-east-1", **reads_s3})


def _chat(recording: Recording) -> ChatRequest | None:
    match recording.name:
        case name if name in (_LLAMA, _EMBEDDINGS):
            return None
        case name if name == _MANTLE:
            return openai_responses_bodies.chat_of(recording)
        case name if name == _CLAUDE:
            return anthropic_messages_bodies.chat_of(recording)
        case _:
            return bedrock_bodies.chat_of(recording)


def _expected(recording: Recording) -> Situation:
    match recording.name:
        case name if name == _MANTLE:
            return openai_responses_bodies.situation_of(recording)
        case name if name == _CLAUDE:
            return anthropic_messages_bodies.situation_of(recording)
        case _:
            return bedrock_bodies.situation_of(recording)


def _normalize(body: Any) -> Any:
    if "anthropic_version" in body:
        return anthropic_messages_bodies.normalize(body)
    if "input" in body:
        return openai_responses_bodies.normalize(body)
    return bedrock_bodies.normalize(body)


def _non_chat(recording: Recording) -> NonChatRequest | None:
    match recording.name:
        case name if name == _LLAMA:
            request_body = recording.request_body
            completion_request = {
                "prompt": request_body["prompt"],
                "max_tokens": request_body["max_gen_len"],
                "temperature": request_body["temperature"],
                "top_p": request_body["top_p"],
            }
            return NonChatRequest("/v1/completions", completion_request, _check_llama(recording))
        case name if name == _EMBEDDINGS:
            return NonChatRequest("/v1/embeddings", {"input": recording.request_body["texts"]}, _check_embeddings(recording))
        case _:
            return None


def _check_llama(recording: Recording) -> Any:
    def check(response: Any) -> None:
        (choice,) = response["choices"]
        assert (choice["text"], choice["finish_reason"]) == (recording.body["generation"], recording.body["stop_reason"])
        input_tokens, output_tokens = recording.body["prompt_token_count"], recording.body["generation_token_count"]
        assert (response["usage"]["prompt_tokens"], response["usage"]["completion_tokens"]) == (input_tokens, output_tokens)

    return check


def _check_embeddings(recording: Recording) -> Any:
    def check(response: Any) -> None:
        assert [each["embedding"] for each in response["data"]] == recording.body["embeddings"]["float"]
        assert response["usage"]["prompt_tokens"] == int(recording.headers["x-amzn-bedrock-input-token-count"])

    return check


def _with_max_tokens(body: Any) -> Any:
    return {**body, "inferenceConfig": {**body.get("inferenceConfig", {}), "maxTokens": bedrock_bodies.MAX_TOKENS}}


def _guarded_texts_as_texts(body: Any) -> Any:
    (turn,) = body["messages"]
    texts = [{"text": each["guardContent"]["text"]["text"]} for each in turn["content"]]
    return {**body, "messages": [{**turn, "content": texts}]}


def _length_as_description(body: Any) -> Any:
    body = copy.deepcopy(body)
    title = body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]["properties"]["title"]
    title["description"] = json.dumps({"minLength": title.pop("minLength")}, separators=(",", ":"))
    return body


def _without_dimension(body: Any) -> Any:
    return {key: value for key, value in body.items() if key != "output_dimension"}


ALL = recordings("aws_bedrock")
HOST = Host(
    folder="aws_bedrock",
    recordings=ALL,
    provider_target=_provider_target,
    chat=_chat,
    non_chat=_non_chat,
    expected=_expected,
    normalize=_normalize,
    normalize_path=unquote,
    expected_errors={
        _S3: ExpectedError(400),
        "36-error-400-d": ExpectedError(400, "ValidationException"),
        "37-error-403": ExpectedError(502, "UnrecognizedClientException"),
        "c04-error-429": ExpectedError(429, "ThrottlingException"),
    },
    known_differences={
        **{
            each.name: ("only callers of Anthropic's API can express this, and they always send max_tokens", _with_max_tokens)
            for each in ALL
            if "/converse" in each.path and bedrock_bodies.only_anthropic_can_request(each)
        },
        _GUARDRAIL: ("callers cannot mark the text that a guardrail checks: it checks all of it", _guarded_texts_as_texts),
        # Bedrock took the limit here, and held nothing to it that is known: test_bedrock_schema_limits shows that it is checked instead.
        _SCHEMA: ("Anthropic's documentation says that Claude takes no limit of a length: it is a description", _length_as_description),
        _EMBEDDINGS: ("the recorder shortened the vectors: they do not have the requested length", _without_dimension),
    },
)

HOSTS = (HOST,)
