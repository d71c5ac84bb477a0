"""What is asked, whichever route it came by: the body's words read once into what the answer depends on."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

import msgspec

from app.sandbox.constraint import ConstraintSource, read_constraint
from app.sandbox.errors import ContextLengthExceeded, InvalidRequest
from app.sandbox.request_schema import (
    AudioPart,
    ChatBody,
    CompletionBody,
    Control,
    FilePart,
    GenerationBody,
    ImagePart,
    ImageUrl,
    Message,
    RefusalPart,
    TextPart,
    Tool,
)
from app.sandbox.tokens import (
    AUDIO_TOKENS,
    CONTEXT_LENGTH,
    FILE_TOKENS,
    IMAGE_TOKENS,
    LOW_DETAIL_IMAGE_TOKENS,
    MESSAGE_TOKENS,
    count_tokens,
)
from app.sandbox.tools import ToolPlan, read_tools

MAX_PROMPTS = 64
MAX_CONTROLLED_TOKENS = 200_000


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """`heard` is the last thing said to us; `material` is all that a seeded answer depends on, beside the seed."""

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
    stop: tuple[str, ...]
    top_logprobs: int | None
    has_reasoning: bool

    def rng_for_choice(self, index: int) -> Random:
        """The dice of one choice. At temperature 0 there is one answer whatever the seed, as where the likeliest token is taken."""
        if self.is_greedy:
            return Random(blake2b(self.seed_material).digest())
        if self.seed is None:
            return Random()
        return Random(blake2b(self.seed_material + b"|%d|%d" % (self.seed, index)).digest())


def read_chat_request(body: ChatBody) -> SandboxRequest:
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidRequest("top_logprobs: needs logprobs to be true", "top_logprobs")
    read_messages = [read_message(message) for message in body.messages]
    texts = [text for text, _, _ in read_messages]
    media_descriptions = [each for _, media, _ in read_messages for each in media]
    user_text = next((text for text, message in zip(reversed(texts), reversed(body.messages), strict=True) if message.role == "user"), "")
    constraint = read_constraint(body)
    control = read_control(body)
    limits = [limit for limit in (body.max_completion_tokens, body.max_tokens) if limit is not None]
    return SandboxRequest(
        model=body.model,
        user_text=user_text,
        media_descriptions=tuple(media_descriptions),
        seed_material=build_seed_material(body, [*texts, *media_descriptions], constraint),
        prompt_tokens=check_context_length(count_chat_tokens([cost for _, _, cost in read_messages], body.tools)),
        constraint=constraint,
        tools=read_tools(body, user_text, is_answering_tools=body.messages[-1].role in ("tool", "function")),
        control=control,
        n=body.n or 1,
        seed=body.seed,
        is_greedy=body.temperature == 0,
        max_tokens=min(limits, default=None),
        stop=read_stop(body.stop),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        has_reasoning=wants_reasoning(body, control),
    )


def read_completion_requests(body: CompletionBody) -> list[tuple[str, SandboxRequest]]:
    """One ask per prompt, each with its prompt's text. Token ids have no text here, as there is no vocabulary; they are counted."""
    constraint = read_constraint(body)
    control = read_control(body)
    requests: list[tuple[str, SandboxRequest]] = []
    prompts = read_prompts(body.prompt)
    if len(prompts) > MAX_PROMPTS:
        raise InvalidRequest(f"prompt: has {len(prompts)} prompts; the sandbox takes {MAX_PROMPTS}", "prompt")
    for text, size in prompts:
        request = SandboxRequest(
            model=body.model,
            user_text=text,
            media_descriptions=(),
            seed_material=build_seed_material(body, [text], constraint),
            prompt_tokens=check_context_length(size),
            constraint=constraint,
            tools=ToolPlan(),
            control=control,
            n=body.n or 1,
            seed=body.seed,
            is_greedy=body.temperature == 0,
            max_tokens=body.max_tokens,
            stop=read_stop(body.stop),
            top_logprobs=body.logprobs,
            has_reasoning=False,
        )
        requests.append((text, request))
    return requests


def read_prompts(prompt: str | Sequence[str | int | Sequence[int]]) -> list[tuple[str, int]]:
    """The texts and their sizes in tokens, of any of OpenAI's four shapes: a text, texts, token ids, lists of token ids."""
    if isinstance(prompt, str):
        return [(prompt, count_tokens(prompt))]
    if not prompt:
        raise InvalidRequest("prompt: is empty", "prompt")
    ids = [each for each in prompt if isinstance(each, int)]
    if ids:
        if len(ids) < len(prompt):
            raise InvalidRequest("prompt: mixes token ids with other things", "prompt")
        return [("", len(ids))]
    texts = [each for each in prompt if not isinstance(each, int)]
    return [(each, count_tokens(each)) if isinstance(each, str) else ("", len(each)) for each in texts]


def read_message(message: Message) -> tuple[str, list[str], int]:
    """A message's text, its other parts in words, and its price in tokens."""
    parts = [TextPart(message.content)] if isinstance(message.content, str) else message.content or []
    texts: list[str] = []
    media_descriptions: list[str] = []
    tokens = 0
    for part in parts:
        match part:
            case TextPart():
                texts.append(part.text)
            case RefusalPart():
                texts.append(part.refusal)
            case ImagePart():
                image = part.image_url if isinstance(part.image_url, ImageUrl) else ImageUrl(part.image_url)
                media_descriptions.append(f"an image ({describe_url(image.url)})")
                tokens += LOW_DETAIL_IMAGE_TOKENS if image.detail == "low" else IMAGE_TOKENS
            case FilePart():
                name = part.file.filename or part.file.file_id or "without a name"
                media_descriptions.append(f"a file ({name}, {describe_url(part.file.file_data or '')})")
                tokens += FILE_TOKENS
            case AudioPart():
                media_descriptions.append(f"audio ({part.input_audio.format})")
                tokens += AUDIO_TOKENS
    calls = "".join(call.function.name + call.function.arguments for call in message.tool_calls or ())
    text = "".join(texts)
    return text, media_descriptions, tokens + count_tokens(text) + count_tokens(calls) + count_tokens(message.reasoning_content or "")


def count_chat_tokens(message_tokens: Sequence[int], tools: Sequence[Tool] | None) -> int:
    """What a chat costs, of what each of its messages does."""
    return sum(message_tokens) + MESSAGE_TOKENS * len(message_tokens) + (count_tokens(msgspec.json.encode(tools).decode()) if tools else 0)


def describe_url(url: str) -> str:
    """What a URL shows without being fetched: the type and size of a data URL, or the address."""
    if not url.startswith("data:"):
        return url[:80] or "not included"
    head, _, payload = url.partition(",")
    kind = head.removeprefix("data:").partition(";")[0] or "text/plain"
    size_bytes = len(payload) * 3 // 4 - payload[-2:].count("=") if head.endswith(";base64") else len(payload)
    return f"{kind}, {size_bytes} bytes"


def read_control(body: GenerationBody) -> Control:
    control = body.sandbox or Control()
    if (control.tokens or 0) * (body.n or 1) > MAX_CONTROLLED_TOKENS:
        raise InvalidRequest(f"sandbox.tokens: is more than {MAX_CONTROLLED_TOKENS} over all choices", "sandbox.tokens")
    return control


def read_stop(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if "" in stops:
        raise InvalidRequest("stop: an empty text would stop everything", "stop")
    return stops


def check_context_length(tokens: int) -> int:
    if tokens > CONTEXT_LENGTH:
        raise ContextLengthExceeded(f"The prompt has {tokens} tokens; the sandbox's context has room for {CONTEXT_LENGTH}.")
    return tokens


def wants_reasoning(body: ChatBody, control: Control) -> bool:
    """Our own word first, then the engine's (chat_template_kwargs), then OpenAI's."""
    if control.reasoning is not None:
        return control.reasoning
    template = body.chat_template_kwargs or {}
    for name in ("enable_thinking", "thinking"):
        if isinstance(template.get(name), bool):
            return template[name]
    return body.reasoning_effort not in (None, "none")


def build_seed_material(body: ChatBody | CompletionBody, texts: Sequence[str], source: ConstraintSource | None) -> bytes:
    """Not the body's bytes: a whole answer and a stream of it are one answer, and so are two spellings of one constraint."""
    constraint = [source.kind, source.source, source.whitespace] if source else []
    tools = [body.tools, body.tool_choice] if isinstance(body, ChatBody) and body.tools else []
    return msgspec.json.encode([body.model, texts, constraint, tools])
