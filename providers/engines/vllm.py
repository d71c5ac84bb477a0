"""vLLM. Its words for guided decoding changed: before 0.12 guided_*, since then structured_outputs (seen on 0.32: guided_* answers 200 and
constrains nothing; /reference/engines.md 2.1 and 2.2)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from providers import guided
from providers.guided import Constraint, Kind, Way
from providers.provider import Bent, Provider
from providers.wire import UNREADABLE, Body

_KINDS: tuple[Kind, ...] = ("json_object", "json_schema", "regex", "choice", "grammar", "structural_tag")
_JSON = ("json_object", "json_schema")
_WORDS = frozenset({"structured_outputs"})
_OLD_WORDS = frozenset({"guided_json", "guided_regex", "guided_choice", "guided_grammar"})
_WAYS: guided.Ways = {kind: Way("enforced", guided.as_structured_outputs, plain=kind in _JSON) for kind in _KINDS}
_OLD_WAYS: guided.Ways = {kind: Way("enforced", guided.as_guided_fields, plain=kind in _JSON) for kind in _KINDS}


class VLLM(Provider):
    name: ClassVar[str] = "vllm"
    dialects: ClassVar[tuple[str, ...]] = (
        *("openai_chat", "openai_responses", "anthropic_messages", "openai_completions"),
        *("openai_embeddings", "anthropic_count_tokens", "vllm_generate"),
    )
    guided_in = frozenset({"openai_chat", "openai_completions", "vllm_generate"})
    default_base_url: ClassVar[str | None] = None
    probe_path: ClassVar[str | None] = "/version"
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "version": 'the engine\'s version ("0.11.0") where /version cannot be asked',
    }

    # A whitespace pattern is accepted and ignored since V1; the template fields are obeyed, or refused by vLLM with a 400 of its own.
    refuses = frozenset({"guided_whitespace_pattern"})
    # user, store, metadata and service_tier are read and thrown away (seen on 0.32).
    hints = frozenset({"guided_decoding_backend", "user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"})

    @property
    def _old(self) -> bool:
        version = self.version or _numbers(str(self.options.get("version", "")))
        return version is not None and version < (0, 12)

    @property
    def own_words(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _OLD_WORDS if self._old else _WORDS

    @property
    def guided(self) -> guided.Ways:
        return _OLD_WAYS if self._old else _WAYS

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect == "openai_chat" and _is_empty_list(body.get("tools")):
            del body["tools"]  # an empty list means none to OpenAI; vLLM answers it with 400 (seen on 0.32)
            if body.value("tool_choice") in ("auto", "none"):
                del body["tool_choice"]  # says nothing without tools; vLLM answers it with 400 there
        return bent

    def read_version(self, probe: bytes) -> tuple[int, ...] | None:
        try:
            told = msgspec.json.decode(probe, type=dict[str, Any])
        except UNREADABLE:
            return None
        return _numbers(str(told.get("version", "")))


def _is_empty_list(value: Any) -> bool:
    return isinstance(value, msgspec.Raw) and bytes(value)[:1] == b"[" and not bytes(value)[1:-1].strip()


def _numbers(version: str) -> tuple[int, ...] | None:
    """The leading numbers of a version such as 0.11.2rc1+cpu; None if it starts with none (a development build)."""
    numbers: list[int] = []
    for part in version.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers) or None
