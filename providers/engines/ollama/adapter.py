"""Ollama, by its own chat: its /v1 loses num_ctx, top_k, min_p, repeat_penalty and logit_bias without a word, and cuts long prompts.

Raw prompts and embeddings have no chat, and go to its /v1 all the same.
Sources: ollama 0.33 (server/routes.go, openai/openai.go), by /reference/engines.md 1.6, 2, 3, 5; ollama#18107, #17944, #8063; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers import structured_output
from providers.adapters.provider import Adapted, InvalidOption, Provider
from providers.adapters.unsupported_fields import NEUTRAL_VALUES, UNKNOWN_FIELDS, UNKNOWN_HINTS, NeutralValues, UnsupportedFields
from providers.canonical.errors import Unsupported
from providers.canonical.media import MediaKind
from providers.canonical.raw_json import Body
from providers.dialects.ollama_chat.output_format import is_quoted, write_format
from providers.structured_output import Constraint, ConstraintPlan, Enforcement, OutputFormat

_NATIVE_DIALECT = "ollama_chat"

# What its /v1/completions has no field for.
_UNSUPPORTED_IN_COMPLETIONS = frozenset(
    {
        *("n", "echo", "logit_bias", "top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids"),
        *("include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens", "priority", "cache_salt"),
        *("lora_path", "session_id", "separate_reasoning", "enable_thinking", "chat_template_kwargs", "mm_processor_kwargs"),
        *("continue_final_message", "tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "reasoning_effort"),
    }
)
_NEUTRAL_VALUES: NeutralValues = {
    **{field: values for field, values in NEUTRAL_VALUES.items() if field != "suffix"},
    "n": (1,),
    "echo": (False,),
    "logit_bias": ({},),
    "top_k": (-1, 0),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "priority": (0,),
    "separate_reasoning": (True,),
    "continue_final_message": (False,),
    "tools": ([],),
    "parallel_tool_calls": (True, False),
}


class Ollama(Provider):
    name: ClassVar[str] = "ollama"
    dialects: ClassVar[tuple[str, ...]] = (_NATIVE_DIALECT, "openai_completions", "openai_embeddings")
    constrained_dialects = frozenset({_NATIVE_DIALECT})
    default_base_url: ClassVar[str | None] = None
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"image"})
    strict_tools: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "num_ctx": "how many tokens of context its models are loaded with; Ollama's own default is small, often 4096",
        "keep_alive": 'how long a model stays loaded after an answer: "10m", seconds, or -1 for always; Ollama\'s own default is 5m',
        "truncate": "true: a conversation longer than the context loses its beginning in silence; false (default): it is refused",
    }

    renamed_fields: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}
    unsupported_fields = _UNSUPPORTED_IN_COMPLETIONS | UNKNOWN_FIELDS.difference({"suffix"})
    hint_fields = UNKNOWN_HINTS

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        num_ctx, keep_alive, truncate = options.get("num_ctx"), options.get("keep_alive"), options.get("truncate", False)
        if num_ctx is not None and (type(num_ctx) is not int or num_ctx < 1):
            raise InvalidOption(f"Option num_ctx={num_ctx!r} of provider {configured_as!r} must be a number of tokens.")
        if keep_alive is not None and (not isinstance(keep_alive, str | int | float) or isinstance(keep_alive, bool)):
            raise InvalidOption(f'Option keep_alive={keep_alive!r} of provider {configured_as!r} must be seconds, or a time such as "10m".')
        if not isinstance(truncate, bool):
            raise InvalidOption(f"Option truncate={truncate!r} of provider {configured_as!r} may be true or false.")
        self._num_ctx, self._keep_alive, self._truncate = num_ctx, keep_alive, truncate

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        """Of its /v1/completions, the only OpenAI-shaped dialect that it is asked for text in, which reads no constraint."""
        return {}

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        """In its own chat the constraint is in the ask already; one that cannot be said there was refused, or let go, as it was written."""
        output = constraint.output
        if dialect != _NATIVE_DIALECT or output is None:
            return super().plan_constraint(constraint, dialect, as_said=as_said)
        try:
            write_format(output)
        except Unsupported:
            return None
        return ConstraintPlan(self._enforcement(output), output, is_json_string=is_quoted(output))

    def _enforcement(self, output: OutputFormat) -> Enforcement:
        """It may ignore a format, by model, version and `think` (ollama#8063, #14645, #15260), and its grammar passes over some keywords.

        Of a regex it is never trusted: builds of llama.cpp differ about what a pattern may be.
        """
        if not self.trusted or isinstance(output, structured_output.Regex):
            return "validated"
        return "converted" if is_quoted(output) else "enforced"

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        if dialect == "openai_completions":
            unsupported_fields.drop_neutral(_NEUTRAL_VALUES)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == _NATIVE_DIALECT:
            # Both are on unless told otherwise: the one cuts what is asked, the other forgets it while the answer is written.
            body["truncate"] = body["shift"] = self._truncate
            if self._num_ctx is not None:
                body["options"] = {**body.get("options", {}), "num_ctx": self._num_ctx}
            if self._keep_alive is not None:
                body["keep_alive"] = self._keep_alive
        return adapted
