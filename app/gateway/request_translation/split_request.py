"""Split a request that asks for several responses into requests for one each, for targets that take only those."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from app.gateway.request_translation.source_request import SourceRequest, UsedIds
from providers.canonical.errors import TooManyInputs, Unsupported
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest

# Each part is a request to the target. OpenAI's `n` goes to 128.
MAX_PARTS = 128
# Some engines have seeds of 32 bits.
_MAX_SEED = 2**31 - 1


def split_source(source: SourceRequest, reason: Unsupported) -> list[SourceRequest]:
    """The parts into which the request can be split, as a target refuses all of it for this reason; else empty."""
    return [_part(source, number, request) for number, request in enumerate(split_request(source.request, reason), 1)]


def _part(source: SourceRequest, number: int, request: InboundRequest) -> SourceRequest:
    chat = None
    if source.chat is not None and source.terms.dialect.name == "openai_chat":
        # It holds media that was fetched, once for all parts, and what a repair has added.
        chat = replace(source.chat, n=None, seed=request.body.value("seed"))
    inference_id = f"part{number}.{source.next_upstream_id()}"
    return replace(source, request=request, inference_id=inference_id, used_ids=UsedIds(), chat=chat, emulable=None)


def split_request(request: InboundRequest, reason: Unsupported) -> list[InboundRequest]:
    """The parts in the order of their choices, or of their inputs; empty: the reason is another, or there would be too many.

    `reason` is why the target refuses the whole request.
    """
    split = _SPLITS.get((request.dialect, reason.param or ""))
    return [] if split is None else split(request, reason)


def _split_chat(request: InboundRequest, reason: Unsupported) -> list[InboundRequest]:
    n = request.body.value("n") or 1
    return [_single(request, at, {}) for at in range(n)] if 1 < n <= MAX_PARTS else []


def _split_gemini(request: InboundRequest, reason: Unsupported) -> list[InboundRequest]:
    config: dict[str, Any] = request.body.value("generationConfig") or {}
    count = config.get("candidateCount")
    if not isinstance(count, int) or not 1 < count <= MAX_PARTS:
        return []
    rest = {name: value for name, value in config.items() if name != "candidateCount"}
    output_tokens = None if request.output_tokens is None else request.output_tokens // count
    parts: list[InboundRequest] = []
    for at in range(count):
        own = rest if rest.get("seed") is None else {**rest, "seed": _seed(rest["seed"], at)}
        parts.append(replace(request, body=Body({**request.body, "generationConfig": own}), choices=1, output_tokens=output_tokens))
    return parts


def _split_completion(request: InboundRequest, reason: Unsupported) -> list[InboundRequest]:
    """Choices of the first prompt come first. With `best_of`, the host would have to choose among several."""
    prompt, n = request.body.value("prompt"), request.body.value("n") or 1
    prompts = cast("list[Any]", prompt) if isinstance(prompt, list) else [prompt]
    if isinstance(prompts[0], int):  # token ids of one prompt
        prompts = [prompts]
    if not 1 < len(prompts) * n <= MAX_PARTS or (request.body.value("best_of") or 1) > 1:
        return []
    sizes = [len(each) if isinstance(each, str | list) else 1 for each in prompts]  # pyright: ignore[reportUnknownArgumentType]
    shares = [request.input_tokens * size // max(1, sum(sizes)) for size in sizes]
    return [
        replace(_single(request, at, {"prompt": each}), input_tokens=share)
        for each, share in zip(prompts, shares, strict=True)
        for at in range(n)
    ]


def _split_embeddings(request: InboundRequest, reason: Unsupported) -> list[InboundRequest]:
    inputs = request.body.value("input")
    if not isinstance(reason, TooManyInputs) or not isinstance(inputs, list):
        return []
    all_inputs, size = cast("list[Any]", inputs), reason.maximum
    parts = [all_inputs[at : at + size] for at in range(0, len(all_inputs), size)]
    if len(parts) > MAX_PARTS:
        return []
    return [
        replace(request, body=Body({**request.body, "input": part}), input_tokens=request.input_tokens * len(part) // len(all_inputs))
        for part in parts
    ]


def _single(request: InboundRequest, at: int, fields: Mapping[str, Any]) -> InboundRequest:
    """A request for one choice. With a seed, each choice of the same prompt gets another: they should differ."""
    body = Body({**request.body, **fields})
    body.pop("n", None)
    body.pop("best_of", None)
    seed = body.value("seed")
    if isinstance(seed, int) and at:
        body["seed"] = _seed(seed, at)
    return replace(request, body=body, choices=1)


def _seed(seed: int, at: int) -> int:
    return seed + at if seed + at <= _MAX_SEED or seed > _MAX_SEED else seed - at


_SPLITS: Mapping[tuple[str, str], Callable[[InboundRequest, Unsupported], list[InboundRequest]]] = {
    ("openai_chat", "n"): _split_chat,
    ("gemini", "generationConfig.candidateCount"): _split_gemini,
    ("openai_completions", "n"): _split_completion,
    ("openai_completions", "prompt"): _split_completion,
    ("openai_embeddings", "input"): _split_embeddings,
}
