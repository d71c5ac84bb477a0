"""The inference routes, as callers read of them: app/domain/inference_paths.py declares them, and InferenceRoute serves them all."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.api.callers.caller_route import COUNT, ITEMS, OBJECT, TEXT, TEXT_OR_NULL, CallerRoute, Schema, list_of, object_with
from providers.catalogue import DIALECTS
from providers.dialects.anthropic import request_schema as anthropic_messages
from providers.dialects.openai_chat import request_schema as openai_chat
from providers.dialects.openai_completions import request_schema as openai_completions
from providers.dialects.openai_embeddings import request_schema as openai_embeddings
from providers.dialects.openai_responses import request_schema as openai_responses
from providers.dialects.tensorzero_inference import request_schema as tensorzero_inference
from providers.dialects.vllm_generate import request_schema as vllm_generate
from providers.engine_routes.paths import ROUTE_BY_PATH
from providers.engine_routes.route import Route

# What any inference may answer, besides what every route may.
_ERRORS = (404, 408, 409, 413, 422, 429, 501, 502, 504)

_INFERENCES: Sequence[CallerRoute] = (
    CallerRoute(
        method="POST",
        path="/v1/chat/completions",
        id="create_chat_completion",
        tag="Inference",
        summary="Continue a chat",
        description="OpenAI's chat completions, for every model, whichever API its engine has.",
        prefix="Chat",
        body=[openai_chat.Request],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
        response=object_with(id=TEXT, object=TEXT, created=COUNT, model=TEXT, choices=ITEMS),
        streams=True,
        errors=_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/v1/completions",
        id="create_completion",
        tag="Inference",
        summary="Continue a text",
        prefix="Completion",
        body=[openai_completions.Request],
        example={"model": "sandbox", "prompt": "Once upon a time", "max_tokens": 20},
        response=object_with(id=TEXT, object=TEXT, created=COUNT, model=TEXT, choices=ITEMS),
        streams=True,
        errors=_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/v1/responses",
        id="create_response",
        tag="Inference",
        summary="Create a response",
        description="OpenAI's Responses, stored for `previous_response_id` unless `store` is false.",
        prefix="Responses",
        body=[openai_responses.Request],
        example={"model": "sandbox", "input": "Hello!", "max_output_tokens": 50},
        response=object_with(id=TEXT, object=TEXT, status=TEXT, model=TEXT, output=ITEMS),
        streams=True,
        errors=_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/v1/responses/compact",
        id="compact_response",
        tag="Inference",
        summary="Compact a conversation",
        description="The user's messages and one opaque item with a summary, to be sent as the beginning of the next input.",
        prefix="Compact",
        body=[openai_responses.CompactRequest],
        example={"model": "sandbox", "input": [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}]},
        response=object_with(id=TEXT, object=TEXT, created_at=COUNT, output=ITEMS, usage=OBJECT),
        errors=_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/v1/responses/input_tokens",
        id="count_response_tokens",
        tag="Inference",
        summary="Count the tokens of a response's request",
        prefix="InputTokens",
        body=[openai_responses.Request],
        example={"model": "sandbox", "input": "Hello!"},
        response=object_with(object=TEXT, input_tokens=COUNT),
        errors=_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/v1/messages",
        id="create_message",
        tag="Inference",
        summary="Create a message",
        description="Anthropic's Messages, for every model, whichever API its engine has.",
        prefix="Messages",
        body=[anthropic_messages.MessagesRequest],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
        response=object_with(id=TEXT, type=TEXT, role=TEXT, model=TEXT, content=ITEMS, stop_reason=TEXT_OR_NULL, usage=OBJECT),
        streams=True,
        errors=_ERRORS,
        error_schema="AnthropicError",
    ),
    CallerRoute(
        method="POST",
        path="/v1/messages/count_tokens",
        id="count_message_tokens",
        tag="Inference",
        summary="Count the tokens of a message's request",
        prefix="CountTokens",
        body=[anthropic_messages.CountTokensRequest],
        example={"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}]},
        response=object_with(input_tokens=COUNT),
        errors=_ERRORS,
        error_schema="AnthropicError",
    ),
    CallerRoute(
        method="POST",
        path="/v1/embeddings",
        id="create_embeddings",
        tag="Inference",
        summary="Embed texts",
        prefix="Embeddings",
        body=[openai_embeddings.Request],
        example={"model": "sandbox-embed", "input": ["a red fox", "the stock market"]},
        response=list_of(OBJECT, object=TEXT, model=TEXT),
        errors=_ERRORS,
    ),
    CallerRoute(
        method="POST",
        path="/inference/v1/generate",
        id="generate_from_token_ids",
        tag="Inference",
        summary="Continue token ids",
        description="vLLM's generate: token ids in, token ids out.",
        prefix="Generate",
        body=[vllm_generate.Request],
        example={"model": "sandbox", "token_ids": [72, 105], "sampling_params": {"max_tokens": 10}},
        response=object_with(request_id=TEXT, choices=ITEMS),
        streams=True,
        errors=_ERRORS,
    ),
)

_TENSORZERO: Sequence[CallerRoute] = (
    CallerRoute(
        method="POST",
        path="/inference",
        id="tensorzero_inference",
        tag="TensorZero",
        summary="Infer, in TensorZero's native API",
        description="For every model, whichever API its engine has. The response has `content`; with `output_schema`, `output`.",
        prefix="TensorZero",
        body=[tensorzero_inference.Request],
        example={"model_name": "sandbox", "input": {"messages": [{"role": "user", "content": "Hello!"}]}},
        response=object_with(inference_id=TEXT, episode_id=TEXT, variant_name=TEXT, usage=OBJECT),
        streams=True,
        errors=_ERRORS,
        error_schema="TensorZeroError",
    ),
    *(
        replace(each, path=f"/openai{each.path}", id=f"tensorzero_{each.id}", tag="TensorZero", description=f"The same as {each.path}.")
        for each in _INFERENCES
        if each.path in ("/v1/chat/completions", "/v1/embeddings")
    ),
)

# Route -> summary, an example and the response, in the common shape.
_ENGINE_ROUTES: Mapping[str, tuple[str, Mapping[str, Any] | None, Schema]] = {
    "tokenize": ("Convert text, or a chat, to token ids", {"model": "sandbox", "prompt": "Hi"}, OBJECT),
    "detokenize": ("Convert token ids to text", {"model": "sandbox", "tokens": [72, 105]}, OBJECT),
    "encode": ("Convert text to token ids, in LMDeploy's shape", {"model": "sandbox", "input": "Hi"}, object_with(input_ids={}, length={})),
    "sglang_encode": ("Embed texts, in SGLang's shape", None, {}),
    "rerank": (
        "Rank documents by a query",
        {"model": "sandbox-embed", "query": "a red fox", "documents": ["the stock market", "a red fox runs"]},
        {},
    ),
    "score": ("Score pairs of texts", {"model": "sandbox-embed", "text_1": "a red fox", "text_2": "a red fox runs"}, {}),
    "pooling": ("Pool texts", None, {}),
    "classify": ("Classify texts", None, {}),
    "generate": ("Continue a text, in LMDeploy's or SGLang's shape", None, {}),
}


def _describe_engine_routes() -> list[CallerRoute]:
    routes: list[CallerRoute] = []
    for path, name in ROUTE_BY_PATH.items():
        summary, example, response = _ENGINE_ROUTES[name]
        route = DIALECTS[name]
        assert isinstance(route, Route), f"{name} is an engine's route"
        decoders = {id(decoder.type): decoder.type for decoder in route.request_decoders.values()}
        routes.append(
            CallerRoute(
                method="POST",
                path=path,
                id=f"{name}{'_v' + path[2] if path[1] == 'v' and path[2].isdigit() else ''}",
                tag="Engine routes",
                summary=summary,
                prefix="".join(part.title() for part in name.split("_")),
                body=list(decoders.values()),
                model=True,
                example=example,
                response=response,
                streams=name == "generate",
                errors=_ERRORS,
            )
        )
    return routes


DESCRIPTIONS: Sequence[CallerRoute] = (*_INFERENCES, *_TENSORZERO, *_describe_engine_routes())
