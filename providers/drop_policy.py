"""DropPolicy: a field that the target cannot honour is refused, or dropped where the caller or the operator allows it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body

_INDEX = re.compile(r"\[\d+\]")
# Fields of a single API that change how a response is produced, and not what may be in it.
_HINT_FIELDS = frozenset(
    {
        *("cache_control", "prompt_cache_breakpoint", "prompt_cache_options", "prompt_cache_retention"),
        *("context_management", "speed", "eager_input_streaming", "defer_loading", "client_metadata", "diagnostics", "metadata"),
        *("include_obfuscation", "continuous_usage_stats", "phase", "detail", "prediction"),
        # What would be left out of a conversation that is too long, which is refused instead; and calls of tools that the host runs.
        *("truncation", "max_tool_calls"),
        # How hard a model thinks, where an object of a single API says it, and what becomes of earlier thinking (Kimi's, GLM's).
        *("effort", "keep", "clear_thinking"),
        # What Anthropic does with thinking that belongs to another conversation (opencode sends it with each request).
        "block_binding",
        # Google's: thresholds of its filters, how closely it looks at media, which calls it checks.
        *("safetySettings", "mediaResolution", "functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations"),
        *("audioTimestamp", "enableEnhancedCivicAnswers", "partMetadata"),
        # Of tools of Responses: what their results look like, and whether those may come later. Of its messages: Codex's notes for OpenAI.
        *("output_schema", "async", "internal_chat_message_metadata_passthrough"),
    }
)
# The same of a field whose last name alone says too little: which earlier reasoning a model sees.
_HINT_PATHS = frozenset({"reasoning.context"})
# The same of a message: the effort from there on (Anthropic's Claude Code sends one with its first instruction). Of a function of
# Google's: what it returns, and whether the model waits for it.
_INDEXED_HINTS = re.compile(r"messages\[\d+\]\.output_config|tools\[\d+\]\.(response|responseJsonSchema|behavior)")
# Claude Code goes on without it after a 400 that names it, as its contract for gateways says (2.1.332, `claude gateway`).
_STATUS_BY_FIELD: Mapping[str, int] = {"safeguards": 400}
_MESSAGE_INDEX = re.compile(r"messages\[(\d+)\]")
# Wishes for how a response is sampled and written, which every API fulfils as far as it can: OpenAI promises its best effort for a seed.
_WISHES = frozenset({"seed", "verbosity", "temperature", "top_p", "reasoning_effort"})
# The same by the names of an API whose clients send them by default, whatever the model: the Gemini CLI (0.61.0) a topK of 64.
CALLER_WISHES = frozenset({"generationConfig.topK"})
# Values that request nothing. The last ones: a model may call a tool itself (whether or not a program of OpenAI's may, too), and a document
# need not be cited.
_NEUTRAL_VALUES: tuple[Any, ...] = (None, "", [], ["direct"], ["direct", "programmatic"], ["programmatic", "direct"], {"enabled": False})


class DropPolicy:
    """Decides about each field of one request that the target cannot honour, and lists those that it dropped.

    A field is dropped if `may_drop` allows it, by its name or by that of the top-level field that holds it; else it is refused. Hints are
    always dropped and neutral values are ignored.

    A translated chat names fields as ChatRequest does, or by paths that begin with `messages[`: `field_names` and `caller_path` map them to
    the caller's own, in which errors and `dropped` speak. `caller_path` reads the body again, so it is called at most `max_paths` times.
    None: the paths are the caller's own already.

    An edited body names fields as the caller does. Top-level fields that are dropped are removed from `body`, and the fields in `accepted`
    (option `accepts` of a provider: its operator says that this engine honours them) are left alone.
    """

    def __init__(
        self,
        may_drop: Callable[[str], bool],
        field_names: Mapping[str, str],
        target_name: str,
        caller_path: Callable[[str], str] | None = None,
        max_paths: int = 32,
        *,
        body: Body | None = None,
        accepted: Collection[str] = (),
    ) -> None:
        self._may_drop = may_drop
        self._field_names = field_names
        self._target_name = target_name
        self._caller_path = caller_path
        self._caller_paths: dict[str, str] = {}
        self._max_paths = max_paths
        self._body = Body() if body is None else body
        self._accepted = accepted
        self._dropped: dict[str, None] = {}
        self._message_indexes: Sequence[int] | None = None

    @property
    def dropped(self) -> list[str]:
        """Dropped fields by the caller's names, without duplicates. A copy: to add to it, call report_dropped()."""
        return list(self._dropped)

    @property
    def target_name(self) -> str:
        """How errors name the target."""
        return self._target_name

    def renumber_messages(self, indexes: Sequence[int]) -> None:
        """Makes later paths count the messages in another order. `indexes` holds the index until now of each of them."""
        before = self._message_indexes
        self._message_indexes = indexes if before is None else [before[index] for index in indexes]

    def accepts(self, field: str) -> bool:
        """Whether the operator says that the target honours this top-level field, whatever its adapter knows."""
        return field in self._accepted

    def may_drop(self, path: str) -> bool:
        """Whether this may be dropped, or the top-level field that holds it. `path` is the caller's own."""
        return path in CALLER_WISHES or self._may_drop(path) or self._may_drop(path.partition(".")[0].partition("[")[0])

    def drop_or_refuse(self, field: str, why: str) -> None:
        """Drops a field, or a path in a chat's messages. Raises Unsupported unless that is allowed. `why` is a sentence."""
        if field in self._accepted:
            return
        self.drop_path_or_refuse(self._caller_name(field), why)
        self._body.pop(field, None)

    def drop_path_or_refuse(self, path: str, why: str) -> None:
        """Reports the caller's own path as dropped; whoever calls this removes what is there.

        Raises Unsupported unless dropping it is allowed. `why` is a sentence.
        """
        if not self.may_drop(path):
            raise unsupported_error(path, self._target_name, why)
        self.report_dropped(path)

    def drop_hint(self, field: str) -> None:
        """Drops a field that changes no response, whatever is allowed."""
        self.report_dropped(self._caller_name(field))
        self._body.pop(field, None)

    def drop_missing(self, field: str, why: str) -> None:
        """Drops or refuses a field that the target, or its model, does not have at all. A wish is dropped as a hint.

        Clients send wishes by default, whatever the model.
        """
        if field in _WISHES and field not in self._accepted:
            self.drop_hint(field)
        else:
            self.drop_or_refuse(field, why)

    def drop_extra_field(self, path: str, value: Raw, why: str) -> None:
        """Drops a field that ChatRequest does not name, by its path. A neutral value is ignored; else drop_hint() or drop_or_refuse()."""
        if msgspec.json.decode(value) in _NEUTRAL_VALUES:
            return
        caller_path = self._find_caller_path(path) if path.startswith("messages[") else path
        if path.rpartition(".")[2] in _HINT_FIELDS or path in _HINT_PATHS or _INDEXED_HINTS.fullmatch(path):
            self.report_dropped(caller_path)
        else:
            self.drop_path_or_refuse(caller_path, why)

    def drop_neutral(self, neutral_values: Mapping[str, Collection[Any]]) -> None:
        """Removes from the body, without a report, the fields that have one of these values, or null."""
        for field in [field for field in self._body if field in neutral_values]:
            value = self._body.value(field)
            if value is None or value in neutral_values[field]:
                del self._body[field]

    def report_dropped(self, path: str) -> None:
        """Adds to `dropped`; whoever calls this removes what is there. `path` is the caller's own."""
        self._dropped[path] = None

    def _caller_name(self, field: str) -> str:
        if field.startswith(("messages[", "tools[")):
            return self._find_caller_path(field)
        return self._field_names.get(field, field)

    def _find_caller_path(self, path: str) -> str:
        """The caller's path; beyond `max_paths`, the kind of path, without indexes: a body may hold any number of hints."""
        if self._message_indexes is not None:
            path = _MESSAGE_INDEX.sub(self._caller_index, path, count=1)
        if self._caller_path is None:
            return path
        caller_path = self._caller_paths.get(path)
        if caller_path is None:
            if len(self._caller_paths) >= self._max_paths:
                return _INDEX.sub("[]", path)
            caller_path = self._caller_paths[path] = self._caller_path(path)
        return caller_path

    def _caller_index(self, match: re.Match[str]) -> str:
        assert self._message_indexes is not None
        index = int(match[1])
        return f"messages[{self._message_indexes[index] if index < len(self._message_indexes) else index}]"


def unsupported_error(field: str, target_name: str, why: str) -> Unsupported:
    """The refusal of a field that the target cannot honour, with the way out. `field` is the caller's name; `why` is a sentence."""
    error = Unsupported(
        f"`{field}` cannot be honoured by {target_name}: {why} "
        f"Leave it out, choose another model, or send the header `x-narthex-drop: {field}` to go without; an operator can allow that in "
        "the option `drop` of the model, the provider, the team or the key.",
        param=field,
    )
    error.status = _STATUS_BY_FIELD.get(field, error.status)
    return error
