"""Ollama, by its own chat: its /v1 loses num_ctx, top_k, min_p, repeat_penalty and logit_bias without a word, and cuts long prompts.

Raw prompts and embeddings have no chat, and go to its /v1 all the same.
Sources: ollama 0.33 (server/routes.go, openai/openai.go), by /reference/engines.md 1.6, 2, 3, 5; ollama#18107, #17944, #8063; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers import guided
from providers.dialects.ollama_chat.formats import is_quoted, write_format
from providers.errors import Unsupported
from providers.guided import Constraint, Guiding, How, Output
from providers.losses import IDLE, UNKNOWN, UNKNOWN_HINTS, Idle, Losses
from providers.media import Kind
from providers.provider import BadOption, Bent, Provider
from providers.wire import Body

_OWN = "ollama_chat"

# What its /v1/completions has no field for.
_NOT_IN_COMPLETIONS = frozenset(
    {
        *("n", "echo", "logit_bias", "top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids"),
        *("include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens", "priority", "cache_salt"),
        *("lora_path", "session_id", "separate_reasoning", "enable_thinking", "chat_template_kwargs", "mm_processor_kwargs"),
        *("continue_final_message", "tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "reasoning_effort"),
    }
)
_IDLE: Idle = {
    **{field: values for field, values in IDLE.items() if field != "suffix"},
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
    dialects: ClassVar[tuple[str, ...]] = (_OWN, "openai_completions", "openai_embeddings")
    guided_in = frozenset({_OWN})
    default_base_url: ClassVar[str | None] = None
    only_bytes: ClassVar[frozenset[Kind]] = frozenset({"image"})
    strict_tools: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "num_ctx": "how many tokens of context its models are loaded with; Ollama's own default is small, often 4096",
        "keep_alive": 'how long a model stays loaded after an answer: "10m", seconds, or -1 for always; Ollama\'s own default is 5m',
        "truncate": "true: a conversation longer than the context loses its beginning in silence; false (default): it is refused",
    }

    rename: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}
    refuses = _NOT_IN_COMPLETIONS | UNKNOWN.difference({"suffix"})
    hints = UNKNOWN_HINTS

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        num_ctx, keep_alive, truncate = options.get("num_ctx"), options.get("keep_alive"), options.get("truncate", False)
        if num_ctx is not None and (type(num_ctx) is not int or num_ctx < 1):
            raise BadOption(f"Option num_ctx={num_ctx!r} of provider {configured_as!r} must be a number of tokens.")
        if keep_alive is not None and (not isinstance(keep_alive, str | int | float) or isinstance(keep_alive, bool)):
            raise BadOption(f'Option keep_alive={keep_alive!r} of provider {configured_as!r} must be seconds, or a time such as "10m".')
        if not isinstance(truncate, bool):
            raise BadOption(f"Option truncate={truncate!r} of provider {configured_as!r} may be true or false.")
        self._num_ctx, self._keep_alive, self._truncate = num_ctx, keep_alive, truncate

    @property
    def guided(self) -> guided.Ways:
        """Of its /v1/completions, the only OpenAI-shaped dialect that it is asked for text in, which reads no constraint."""
        return {}

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """In its own chat the constraint is in the ask already; one that cannot be said there was refused, or let go, as it was written."""
        output = constraint.output
        if dialect != _OWN or output is None:
            return super().guiding(constraint, dialect, as_said=as_said)
        try:
            write_format(output)
        except Unsupported:
            return None
        return Guiding(self._how(output), output, quoted=is_quoted(output))

    def _how(self, output: Output) -> How:
        """It may ignore a format, by model, version and `think` (ollama#8063, #14645, #15260), and its grammar passes over some keywords.

        Of a regex it is never trusted: builds of llama.cpp differ about what a pattern may be.
        """
        if not self.vouched or isinstance(output, guided.Regex):
            return "validated"
        return "converted" if is_quoted(output) else "enforced"

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        if dialect == "openai_completions":
            losses.leave_out(_IDLE)
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect == _OWN:
            # Both are on unless told otherwise: the one cuts what is asked, the other forgets it while the answer is written.
            body["truncate"] = body["shift"] = self._truncate
            if self._num_ctx is not None:
                body["options"] = {**body.get("options", {}), "num_ctx": self._num_ctx}
            if self._keep_alive is not None:
                body["keep_alive"] = self._keep_alive
        return bent
