"""SandboxRequest: what a response depends on, read once from the body of any route."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from random import Random

import msgspec

from app.sandbox.prompt_tokens import check_context_length, count_chat_tokens, read_messages
from app.sandbox.protocol.errors import InvalidRequest
from app.sandbox.protocol.request_schema import ChatBody, CompletionBody, Control
from app.sandbox.text.constraint import ConstraintSource, read_constraint
from app.sandbox.text.tokens import CONTEXT_LENGTH, MAX_COUNTED_TOKENS, count_tokens
from app.sandbox.tools import ToolPlan, read_tools

MAX_PROMPTS = 64
MAX_CHOICES = 256
"""Maximum of choices of all prompts of a request together."""

MAX_CONTROLLED_TOKENS = 100_000
"""Maximum of tokens that a request may demand for all its choices together, which take less than a second of the one process; a token's
alternatives (top_logprobs) count as tokens.
"""


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """A request as the sandbox serves it.

    `user_text` is the last message of the user. `min_tokens` is that of free text. `seed_material` is what a
    seeded response depends on, apart from the seed. `written` is the beginning of the response, after which
    it goes on. `unending_tokens` is how much text there is if nothing ends it (`ignore_eos`).

    None means: no constraint, seed or maximum was given, no log probabilities are wanted, the end is not
    ignored.
    """

    model: str
    user_text: str
    media_descriptions: tuple[str, ...]
    seed_material: bytes
    prompt_tokens: int
    constraint: ConstraintSource | None
    tools: ToolPlan
    control: Control
    n: int
    seed: int | None
    is_greedy: bool
    max_tokens: int | None
    min_tokens: int
    unending_tokens: int | None
    stop: tuple[str, ...]
    top_logprobs: int | None
    has_reasoning: bool
    written: str = ""

    @property
    def token_limit(self) -> int:
        """The most tokens that a choice may have: the maximum that the caller set, or what the prompt leaves of the context."""
        room = CONTEXT_LENGTH - self.prompt_tokens
        return room if self.max_tokens is None else min(self.max_tokens, room)

    def rng_for_choice(self, index: int) -> Random:
        """The random numbers of one choice. At temperature 0 they do not depend on the seed, as if the likeliest token were taken."""
        if self.is_greedy:
            return Random(blake2b(self.seed_material).digest())
        if self.seed is None:
            return Random()
        return Random(blake2b(self.seed_material + b"|%d|%d" % (self.seed, index)).digest())


def read_chat_request(body: ChatBody) -> SandboxRequest:
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidRequest("top_logprobs: needs logprobs to be true", "top_logprobs")
    contents = read_messages(body.messages)
    texts = [each.text for each in contents]
    media_descriptions = [description for each in contents for description in each.media_descriptions]
    user_text = next((text for text, message in zip(reversed(texts), reversed(body.messages), strict=True) if message.role == "user"), "")
    earlier, written = body.messages, ""
    if body.continue_final_message and len(body.messages) > 1 and body.messages[-1].role == "assistant":
        earlier, written = body.messages[:-1], texts.pop()
    constraint = read_constraint(body)
    control = body.sandbox or Control()
    limits = [limit for limit in (body.max_completion_tokens, body.max_tokens) if limit is not None]
    request = SandboxRequest(
        model=body.model,
        user_text=user_text,
        media_descriptions=tuple(media_descriptions),
        seed_material=build_seed_material(body, [*texts, *media_descriptions], constraint),
        prompt_tokens=check_context_length(count_chat_tokens([each.tokens for each in contents], body.tools)),
        constraint=constraint,
        tools=read_tools(body, user_text, is_answering_tools=earlier[-1].role in ("tool", "function")),
        control=control,
        n=body.n or 1,
        seed=body.seed,
        is_greedy=body.temperature == 0,
        max_tokens=min(limits, default=None),
        min_tokens=body.min_tokens or 0,
        unending_tokens=None,
        stop=read_stop(body.stop),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        has_reasoning=not written and wants_reasoning(body, control),
        written=written,
    )
    (request,) = bound_output([request], ignores_end=body.ignore_eos is True)
    return request


def read_completion_requests(body: CompletionBody, prompt_tokens: int | None = None) -> list[tuple[str, SandboxRequest]]:
    """Each prompt's text and its request. Token ids have no text, because there is no vocabulary; they are only counted.

    `prompt_tokens` are those of each prompt, where the caller counts in other tokens.
    """
    constraint = read_constraint(body)
    control = body.sandbox or Control()
    requests: list[SandboxRequest] = []
    prompts = read_prompts(body.prompt)
    for text, size in prompts:
        request = SandboxRequest(
            model=body.model,
            user_text=text,
            media_descriptions=(),
            seed_material=build_seed_material(body, [text], constraint),
            prompt_tokens=check_context_length(size if prompt_tokens is None else prompt_tokens),
            constraint=constraint,
            tools=ToolPlan(),
            control=control,
            n=body.n or 1,
            seed=body.seed,
            is_greedy=body.temperature == 0,
            max_tokens=body.max_tokens,
            min_tokens=body.min_tokens or 0,
            unending_tokens=None,
            stop=read_stop(body.stop),
            top_logprobs=body.logprobs,
            has_reasoning=False,
        )
        requests.append(request)
    bounded = bound_output(requests, ignores_end=body.ignore_eos is True, echoes=body.echo)
    return [(text, request) for (text, _), request in zip(prompts, bounded, strict=True)]


def read_prompts(prompt: str | Sequence[str | int | Sequence[int]]) -> list[tuple[str, int]]:
    """Texts and their sizes in tokens, from any of OpenAI's four shapes: a text, texts, token ids, lists of token ids."""
    if isinstance(prompt, str):
        return [(prompt, count_tokens(prompt))]
    if not prompt:
        raise InvalidRequest("prompt: is empty", "prompt")
    ids = [each for each in prompt if isinstance(each, int)]
    if ids:
        if len(ids) < len(prompt):
            raise InvalidRequest("prompt: mixes token ids with other things", "prompt")
        return [("", len(ids))]
    if len(prompt) > MAX_PROMPTS:
        raise InvalidRequest(f"prompt: has {len(prompt)} prompts; the sandbox takes {MAX_PROMPTS}", "prompt")
    prompts: list[tuple[str, int]] = []
    remaining_tokens = MAX_COUNTED_TOKENS
    for each in prompt:
        if not isinstance(each, int):
            prompts.append((each, count_tokens(each)) if isinstance(each, str) else ("", len(each)))
            remaining_tokens -= prompts[-1][1]
        if remaining_tokens < 0:
            raise InvalidRequest(f"prompt: all prompts together have more than {MAX_COUNTED_TOKENS} tokens", "prompt")
    return prompts


def bound_output(requests: Sequence[SandboxRequest], *, ignores_end: bool, echoes: bool = False) -> list[SandboxRequest]:
    """The requests of one body with their `unending_tokens`. Raises InvalidRequest for more output than one body may demand."""
    choices = sum(request.n for request in requests)
    if choices > MAX_CHOICES:
        raise InvalidRequest(f"n: {choices} choices for all prompts together are more than {MAX_CHOICES}", "n")
    first = requests[0]
    shared_by = "all choices, and their alternatives in log probabilities" if first.top_logprobs else "all choices"
    tokens_per_choice = MAX_CONTROLLED_TOKENS // choices // (1 + (first.top_logprobs or 0))
    control = first.control
    say_tokens = count_tokens(control.say) if control.say else 0
    for field, tokens in (
        ("sandbox.tokens", control.tokens or 0),
        ("sandbox.say", say_tokens),
        ("min_tokens", first.min_tokens),
        ("ignore_eos", min(first.max_tokens or 0, CONTEXT_LENGTH) if ignores_end else 0),
        ("echo", max(request.prompt_tokens for request in requests) if echoes else 0),
    ):
        if tokens > tokens_per_choice:
            raise InvalidRequest(f"{field}: {tokens} tokens for each choice are more than {MAX_CONTROLLED_TOKENS} over {shared_by}", field)
    for request in requests:
        if request.min_tokens > request.token_limit:
            limit = "the maximum" if request.max_tokens == request.token_limit else "the room that the prompt leaves"
            raise InvalidRequest(f"min_tokens: is {request.min_tokens}, and {limit} {request.token_limit}", "min_tokens")
    if not ignores_end:
        return list(requests)
    return [replace(request, unending_tokens=min(request.token_limit, tokens_per_choice)) for request in requests]


def read_stop(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if "" in stops:
        raise InvalidRequest("stop: an empty text would stop everything", "stop")
    return stops


def wants_reasoning(body: ChatBody, control: Control) -> bool:
    """Returns whether to reason: decided by our own field, then the engine's (chat_template_kwargs), then OpenAI's."""
    if control.reasoning is not None:
        return control.reasoning
    template = body.chat_template_kwargs or {}
    for name in ("enable_thinking", "thinking"):
        if isinstance(template.get(name), bool):
            return template[name]
    return body.reasoning_effort not in (None, "none")


def build_seed_material(body: ChatBody | CompletionBody, texts: Sequence[str], source: ConstraintSource | None) -> bytes:
    """Returns the parts of a request that decide its response.

    The body's bytes would not do: streaming or not, and two spellings of one constraint, must give the same
    response.
    """
    constraint = [source.kind, source.source, source.whitespace] if source else []
    tools = [body.tools, body.tool_choice] if isinstance(body, ChatBody) and body.tools else []
    return msgspec.json.encode([body.model, texts, constraint, tools])
