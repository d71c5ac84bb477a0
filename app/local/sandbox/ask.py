"""What is asked, whichever route it came by: the body's words read once into what the answer depends on."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

import msgspec

from app.local.sandbox.bodies import (
    AudioPart,
    ChatBody,
    CompletionBody,
    Control,
    FilePart,
    Generation,
    ImagePart,
    ImageUrl,
    Message,
    RefusalPart,
    TextPart,
    Tool,
)
from app.local.sandbox.constraint import Recipe, read_constraint
from app.local.sandbox.errors import Malformed, TooLong
from app.local.sandbox.tokens import AUDIO, CONTEXT, FILE, IMAGE, IMAGE_LOW, PER_MESSAGE, count
from app.local.sandbox.tools import Toolbox, read_tools

MOST_PROMPTS = 64
MOST_TOKENS = 200_000


@dataclass(frozen=True, slots=True)
class Ask:
    """`heard` is the last thing said to us; `material` is all that a seeded answer depends on, beside the seed."""

    model: str
    heard: str
    saw: tuple[str, ...]
    material: bytes
    prompt_tokens: int
    constraint: Recipe | None
    tools: Toolbox
    control: Control
    n: int
    seed: int | None
    is_greedy: bool
    max_tokens: int | None
    stop: tuple[str, ...]
    top_logprobs: int | None
    has_reasoning: bool

    def rng(self, index: int) -> Random:
        """The dice of one choice. At temperature 0 there is one answer whatever the seed, as where the likeliest token is taken."""
        if self.is_greedy:
            return Random(blake2b(self.material).digest())
        if self.seed is None:
            return Random()
        return Random(blake2b(self.material + b"|%d|%d" % (self.seed, index)).digest())


def read_chat(body: ChatBody) -> Ask:
    if body.top_logprobs is not None and not body.logprobs:
        raise Malformed("top_logprobs: needs logprobs to be true", "top_logprobs")
    read = [read_message(message) for message in body.messages]
    texts = [text for text, _, _ in read]
    saw = [each for _, media, _ in read for each in media]
    heard = next((text for text, message in zip(reversed(texts), reversed(body.messages), strict=True) if message.role == "user"), "")
    recipe = read_constraint(body)
    control = read_control(body)
    limits = [limit for limit in (body.max_completion_tokens, body.max_tokens) if limit is not None]
    return Ask(
        model=body.model,
        heard=heard,
        saw=tuple(saw),
        material=material_of(body, [*texts, *saw], recipe),
        prompt_tokens=within_context(price_of([cost for _, _, cost in read], body.tools)),
        constraint=recipe,
        tools=read_tools(body, heard, is_answering_tools=body.messages[-1].role in ("tool", "function")),
        control=control,
        n=body.n or 1,
        seed=body.seed,
        is_greedy=body.temperature == 0,
        max_tokens=min(limits, default=None),
        stop=read_stop(body.stop),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        has_reasoning=wants_reasoning(body, control),
    )


def read_completion(body: CompletionBody) -> list[tuple[str, Ask]]:
    """One ask per prompt, each with its prompt's text. Token ids have no text here, as there is no vocabulary; they are counted."""
    recipe = read_constraint(body)
    control = read_control(body)
    asks: list[tuple[str, Ask]] = []
    prompts = read_prompts(body.prompt)
    if len(prompts) > MOST_PROMPTS:
        raise Malformed(f"prompt: has {len(prompts)} prompts; the sandbox takes {MOST_PROMPTS}", "prompt")
    for text, size in prompts:
        ask = Ask(
            model=body.model,
            heard=text,
            saw=(),
            material=material_of(body, [text], recipe),
            prompt_tokens=within_context(size),
            constraint=recipe,
            tools=Toolbox(),
            control=control,
            n=body.n or 1,
            seed=body.seed,
            is_greedy=body.temperature == 0,
            max_tokens=body.max_tokens,
            stop=read_stop(body.stop),
            top_logprobs=body.logprobs,
            has_reasoning=False,
        )
        asks.append((text, ask))
    return asks


def read_prompts(prompt: str | Sequence[str | int | Sequence[int]]) -> list[tuple[str, int]]:
    """The texts and their sizes in tokens, of any of OpenAI's four shapes: a text, texts, token ids, lists of token ids."""
    if isinstance(prompt, str):
        return [(prompt, count(prompt))]
    if not prompt:
        raise Malformed("prompt: is empty", "prompt")
    ids = [each for each in prompt if isinstance(each, int)]
    if ids:
        if len(ids) < len(prompt):
            raise Malformed("prompt: mixes token ids with other things", "prompt")
        return [("", len(ids))]
    texts = [each for each in prompt if not isinstance(each, int)]
    return [(each, count(each)) if isinstance(each, str) else ("", len(each)) for each in texts]


def read_message(message: Message) -> tuple[str, list[str], int]:
    """A message's text, its other parts in words, and its price in tokens."""
    parts = [TextPart(message.content)] if isinstance(message.content, str) else message.content or []
    texts: list[str] = []
    saw: list[str] = []
    price = 0
    for part in parts:
        match part:
            case TextPart():
                texts.append(part.text)
            case RefusalPart():
                texts.append(part.refusal)
            case ImagePart():
                image = part.image_url if isinstance(part.image_url, ImageUrl) else ImageUrl(part.image_url)
                saw.append(f"an image ({describe(image.url)})")
                price += IMAGE_LOW if image.detail == "low" else IMAGE
            case FilePart():
                name = part.file.filename or part.file.file_id or "without a name"
                saw.append(f"a file ({name}, {describe(part.file.file_data or '')})")
                price += FILE
            case AudioPart():
                saw.append(f"audio ({part.input_audio.format})")
                price += AUDIO
    calls = "".join(call.function.name + call.function.arguments for call in message.tool_calls or ())
    text = "".join(texts)
    return text, saw, price + count(text) + count(calls) + count(message.reasoning_content or "")


def price_of(costs: Sequence[int], tools: Sequence[Tool] | None) -> int:
    """What a chat costs, of what each of its messages does."""
    return sum(costs) + PER_MESSAGE * len(costs) + (count(msgspec.json.encode(tools).decode()) if tools else 0)


def describe(url: str) -> str:
    """What a URL shows without being fetched: the type and size of a data URL, or the address."""
    if not url.startswith("data:"):
        return url[:80] or "not included"
    head, _, payload = url.partition(",")
    kind = head.removeprefix("data:").partition(";")[0] or "text/plain"
    size_bytes = len(payload) * 3 // 4 - payload[-2:].count("=") if head.endswith(";base64") else len(payload)
    return f"{kind}, {size_bytes} bytes"


def read_control(body: Generation) -> Control:
    control = body.sandbox or Control()
    if (control.tokens or 0) * (body.n or 1) > MOST_TOKENS:
        raise Malformed(f"sandbox.tokens: is more than {MOST_TOKENS} over all choices", "sandbox.tokens")
    return control


def read_stop(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if "" in stops:
        raise Malformed("stop: an empty text would stop everything", "stop")
    return stops


def within_context(tokens: int) -> int:
    if tokens > CONTEXT:
        raise TooLong(f"The prompt has {tokens} tokens; the sandbox's context has room for {CONTEXT}.")
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


def material_of(body: ChatBody | CompletionBody, said: Sequence[str], recipe: Recipe | None) -> bytes:
    """Not the body's bytes: a whole answer and a stream of it are one answer, and so are two spellings of one constraint."""
    constraint = [recipe.kind, recipe.source, recipe.whitespace] if recipe else []
    tools = [body.tools, body.tool_choice] if isinstance(body, ChatBody) and body.tools else []
    return msgspec.json.encode([body.model, said, constraint, tools])
