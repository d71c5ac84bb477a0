"""Ollama, in its own chat dialect: its /v1 ignores num_ctx, top_k, min_p, repeat_penalty and logit_bias, and cuts long prompts.

Raw prompts and embeddings have no place in that chat, and go to its /v1.
Sources: ollama 0.33 (server/routes.go, openai/openai.go), docs/sources.md#ollama; ollama#18107, #17944, #8063; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers import structured_output
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted
from providers.canonical.errors import Unsupported
from providers.canonical.media import MediaKind
from providers.canonical.output_format import OutputFormat, Regex
from providers.canonical.raw_json import Body
from providers.dialects.ollama_chat.output_format import is_quoted, write_format
from providers.engines.ollama.fields import NEUTRAL_VALUES, UNSUPPORTED_FIELDS, UNSUPPORTED_HINT_FIELDS
from providers.structured_output import Constraint, ConstraintPlan, Enforcement

_NATIVE_DIALECT = "ollama_chat"


class Ollama(OpenAICompatible):
    """OpenAI's fields are those of its /v1/completions; its own chat is written by the dialect ollama_chat."""

    name: ClassVar[str] = "ollama"
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = (_NATIVE_DIALECT, "openai_completions", "openai_embeddings")
    constrained_dialects = frozenset({_NATIVE_DIALECT})
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "always"
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset({"image"})
    strict_tools: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, str]] = {
        **OpenAICompatible.known_options,
        "num_ctx": "the context length in tokens that its models are loaded with; Ollama's own default is small, often 4096",
        "keep_alive": 'how long a model stays loaded after a response: "10m", seconds, or -1 for always; Ollama\'s own default is 5m',
        "truncate": "true: a conversation longer than the context silently loses its beginning; false (default): it is refused",
    }

    unsupported_fields = UNSUPPORTED_FIELDS
    hint_fields = UNSUPPORTED_HINT_FIELDS
    restricted_fields: Mapping[str, str] = {}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        num_ctx, keep_alive, truncate = options.get("num_ctx"), options.get("keep_alive"), options.get("truncate", False)
        if num_ctx is not None and (type(num_ctx) is not int or num_ctx < 1):
            raise InvalidOption(f"Option num_ctx={num_ctx!r} must be a number of tokens.")
        if keep_alive is not None and (not isinstance(keep_alive, str | int | float) or isinstance(keep_alive, bool)):
            raise InvalidOption(f'Option keep_alive={keep_alive!r} must be seconds, or a time such as "10m".')
        if not isinstance(truncate, bool):
            raise InvalidOption(f"Option truncate={truncate!r} may be true or false.")
        self._num_ctx, self._keep_alive, self._truncate = num_ctx, keep_alive, truncate

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        """Empty: /v1/completions, the only one of OpenAI's dialects in which it generates text, supports no constraint."""
        return {}

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """Plans a constraint. In Ollama's own chat the dialect has already written it, or refused or dropped it.

        The dialect refuses or drops a constraint that it cannot express, and for such a one this returns None.
        """
        output = constraint.output
        if dialect != _NATIVE_DIALECT or output is None:
            return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        try:
            write_format(output)
        except Unsupported:
            return None
        return ConstraintPlan(self._enforcement(output), output, is_json_string=is_quoted(output))

    def _enforcement(self, output: OutputFormat) -> Enforcement:
        """Depending on model, version and `think` it may ignore a format (ollama#8063, #14645, #15260), and its grammar some keywords.

        A regex is never trusted: builds of llama.cpp differ in the patterns that they accept.
        """
        if not self.trusted or isinstance(output, Regex):
            return "validated"
        return "converted" if is_quoted(output) else "enforced"

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if dialect == "openai_completions":
            self.drop_policy(body, may_drop).drop_neutral(NEUTRAL_VALUES)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == _NATIVE_DIALECT:
            # Both default to true: `truncate` cuts the prompt, `shift` forgets its beginning while the response is generated.
            body["truncate"] = body["shift"] = self._truncate
            if self._num_ctx is not None:
                body["options"] = {**body.get("options", {}), "num_ctx": self._num_ctx}
            if self._keep_alive is not None:
                body["keep_alive"] = self._keep_alive
        return adapted
