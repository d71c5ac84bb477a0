"""What an engine would ignore of a body: left out where it asks for nothing, and else refused, or dropped and reported."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.structured_output import Constraint

NeutralValues = Mapping[str, tuple[Any, ...]]
"""Fields with their values that ask for nothing, besides null, which engines of a typed body refuse where a number is meant."""

# Of UNKNOWN.
NEUTRAL_VALUES: NeutralValues = {
    "best_of": (1,),
    "suffix": ("",),
    "use_beam_search": (False,),
    "top_a": (0,),
    "typical_p": (1,),
    "tfs_z": (1,),
    "length_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "bad_words": ([],),
    "allowed_token_ids": ([],),
    "add_generation_prompt": (True,),
    "verbosity": ("medium",),
    "modalities": (["text"],),
    "functions": ([],),
    "function_call": ("none", "auto"),
}

# What neither SGLang nor LMDeploy has a field for: either reads bodies as pydantic does, and passes over what it does not know.
UNKNOWN_FIELDS = frozenset(
    {
        *("top_a", "typical_p", "tfs_z", "length_penalty", "no_repeat_ngram_size", "bad_words", "truncate_prompt_tokens"),
        *("allowed_token_ids", "best_of", "use_beam_search", "chat_template", "add_generation_prompt", "vllm_xargs", "suffix"),
        *("guided_whitespace_pattern", "verbosity", "modalities", "audio", "web_search_options", "functions", "function_call"),
        *("thinking_token_budget", "include_reasoning", "documents", "prompt_logprobs"),
    }
)

# As UNKNOWN; but no answer is another without them.
UNKNOWN_HINTS = frozenset(
    {
        *("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("prediction", "guided_decoding_backend"),
    }
)


class UnsupportedFields:
    """Of one body on its way to `provider`. `dropped`: what has gone by the caller's leave."""

    def __init__(self, provider: Provider, body: Body, may_drop: Callable[[str], bool]) -> None:
        self.dropped: list[str] = []
        self._provider = provider
        self._accepted: Sequence[str] = provider.options.get("accepts", ())
        self._body = body
        self._may_drop = may_drop

    def drop_neutral(self, neutral: NeutralValues) -> None:
        for field in [field for field in self._body if field in neutral]:
            value = self._body.value(field)
            if value is None or value in neutral[field]:
                del self._body[field]

    def drop_or_refuse(self, field: str, why: str) -> None:
        """Raises Unsupported unless the caller lets the field go, or the provider's options say that its engine takes it after all."""
        if field in self._accepted:
            return
        self.drop_path_or_refuse(field, why)
        self._body.pop(field, None)

    def drop_path_or_refuse(self, path: str, why: str) -> None:
        """As without(), of a path within a field: what stands there is for the caller of this to take out."""
        if not (self._may_drop(path) or self._may_drop(path.partition("[")[0].partition(".")[0])):
            raise self._provider.unsupported_error(path, why)
        self.dropped.append(path)

    def refuse_multiple_prompts(self, why: str) -> None:
        """Refuses several prompts at once; token ids are one prompt. There is nothing to go without."""
        prompt = self._body.value("prompt")
        if isinstance(prompt, list) and "prompt" not in self._accepted and len(prompt) > 1 and not isinstance(prompt[0], int):  # pyright: ignore[reportUnknownArgumentType]
            target_name = f"{self._provider.configured_as} ({self._provider.name})"
            raise Unsupported(f"Several prompts at once cannot be asked of {target_name}: {why} Ask for each by itself.", param="prompt")

    def drop_lone_top_logprobs(self) -> None:
        """`top_logprobs` without `logprobs`: of 0 it asks for nothing, of more for what is not told."""
        if "top_logprobs" in self._body and self._body.value("logprobs") is not True:
            if self._body.value("top_logprobs"):
                self.drop_or_refuse("top_logprobs", "it tells none without `logprobs`.")
            else:
                del self._body["top_logprobs"]

    def drop_tools_or_constraint(self, constraint: Constraint | None) -> Constraint | None:
        """Refuses tools beside an output: in these engines it binds the whole answer, calls included, from the first token on.

        A caller may let go of either; what is left of the constraint is given back.

        SGLang answers 400 to it where a call is demanded, and else goes without the tools in silence; LMDeploy asks itself for a call
        by a response_format. Sources: /reference/engines.md 2.2; SGLang 0.5.23, entrypoints/openai/protocol.py, read 2026-11.
        """
        body = self._body
        if constraint is None or constraint.output is None or not body.value("tools"):
            return constraint
        choice = body.value("tool_choice")
        if choice == "none" or "tools" in self._accepted:
            return constraint
        field = constraint.field
        if not self._may_drop("tools") and (self._may_drop(field) or self._may_drop(field.partition(".")[0])):
            self.dropped.append(field)
            return replace(constraint, output=None)
        demand = "" if choice in (None, "auto") else f" (and `tool_choice` demands {'one' if choice == 'required' else 'a certain one'})"
        self.drop_or_refuse("tools", f"it makes no calls{demand} in an answer that `{field}` constrains.")
        for tool_field in ("tool_choice", "parallel_tool_calls"):
            body.pop(tool_field, None)
        return replace(constraint, strict_tools=())
