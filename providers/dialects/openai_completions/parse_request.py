"""Parses a request to /v1/completions."""

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import InboundRequest
from providers.dialects.openai.parse_request import inbound_request, includes_usage
from providers.dialects.openai_completions.dialect_name import DIALECT
from providers.dialects.openai_completions.request_schema import Request
from providers.output_bounds import merge_output_bounds

_decoder = msgspec.json.Decoder(Request)


def parse_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest, which says what is wrong, where, and what is expected."""
    request, body = parse_body(raw, _decoder)
    prompts, token_id_count = _count_prompts(request)
    choices_per_prompt = request.n or 1
    if request.best_of is not None and request.best_of < choices_per_prompt:
        raise InvalidRequest("`best_of` must be at least `n`.", param="best_of")
    if request.best_of is not None and request.best_of > 1 and request.stream:
        raise InvalidRequest("`best_of` cannot be streamed: which choice is best is known only at the end.", param="best_of")
    max_tokens = merge_output_bounds(body, "max_tokens", request.max_tokens, minimum=0)
    generated_choices = prompts * max(choices_per_prompt, request.best_of or 1)
    return inbound_request(
        DIALECT,
        request,
        body,
        end_user=request.user,
        wants_usage=includes_usage(request.stream_options),
        input_tokens=_input_tokens(body, raw, token_id_count),
        output_tokens=None if max_tokens is None else max_tokens * generated_choices,
        choices=prompts * choices_per_prompt,
    )


def _count_prompts(request: Request) -> tuple[int, int | None]:
    """The number of prompts, and of token ids in all of them; None for texts."""
    prompt = request.prompt
    if isinstance(prompt, str):
        return 1, None
    if not prompt:
        raise InvalidRequest("`prompt` is empty.", param="prompt")
    kind = type(prompt[0])
    for at, each in enumerate(prompt):
        if type(each) is not kind:
            raise InvalidRequest(
                f"`prompt` must hold only texts or only token ids: `prompt[{at}]` is of another kind.", param=f"prompt[{at}]"
            )
        if each == []:
            raise InvalidRequest(f"`prompt[{at}]` is empty.", param=f"prompt[{at}]")
    if kind is str:
        return len(prompt), None
    if kind is int:
        return 1, len(prompt)
    return len(prompt), sum(len(each) for each in prompt if isinstance(each, list))


def _input_tokens(body: Body, raw: bytes, token_id_count: int | None) -> int:
    """An estimate: token ids are counted, everything else counts as text."""
    return text_tokens(len(raw)) if token_id_count is None else token_id_count + text_tokens(max(0, len(raw) - len(bytes(body["prompt"]))))
