"""Traits: what an adapter states of its host or engine as data, each with what it means where it is left out."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from providers.adapters.lora import AdapterNaming
from providers.adapters.options import SHARED_OPTIONS
from providers.adapters.tool_names import ToolNames
from providers.canonical.chat import CacheMarkPlace
from providers.canonical.media import MediaKind
from providers.host_operation import HostOperation
from providers.learned_rules.rule import NOTHING_LEARNED, LearnedRules
from providers.profiles.claude.host import ClaudeHost


class AdapterTraits:
    """The attributes of Provider that a subclass sets. The defaults change no request and claim no ability."""

    name: ClassVar[str]
    # Its dialects, best first: a request in a dialect that it does not speak is translated into the first that can express it.
    dialects: ClassVar[tuple[str, ...]] = ()
    default_base_url: ClassVar[str | None] = None
    # Options that `[providers.NAME] options` may hold, with what each is for.
    known_options: ClassVar[Mapping[str, str]] = SHARED_OPTIONS
    # Whether a chat may hold a raw prompt in place of messages (mini-sglang).
    accepts_raw_prompt: ClassVar[bool] = False
    # Whether it runs in the operator's network: media URLs of callers are then fetched for it, unless `media_hosts` has their host.
    is_self_hosted: bool = False
    # Whether it gets the trace of a request unless its configuration says otherwise; None: if it is self-hosted.
    gets_trace: ClassVar[bool | None] = None
    # What it takes of Claude's features, where that is not all of them.
    claude_host: ClaudeHost | None = None
    # Where its chat reads Anthropic's marks of a cache: in a part, or beside the messages.
    cache_marks: frozenset[CacheMarkPlace] = frozenset()
    # Whether must_adapt_as_chat() may be true.
    adapts_own_dialects: ClassVar[bool] = False
    # Whether its URLs name the model, and differ for streams.
    model_in_url: ClassVar[bool] = False
    # Whether the headers of its responses report its rate limits.
    reports_rate_limits: ClassVar[bool] = False
    # The clouds whose own credential chain (aws:default, google:default) may be its credential.
    credential_chains: ClassVar[frozenset[str]] = frozenset()
    # Embeddings and token counts that this host has in a shape of its own, by the caller's dialect.
    host_operations: Mapping[str, HostOperation] = {}
    # Kinds of media that it takes inline only, for it fetches nothing.
    inline_media_kinds: ClassVar[frozenset[MediaKind]] = frozenset()

    # Its dialects in which it enforces all of `constraint_support`; a request with a constraint is written in one of them if possible.
    # Whether it enforces the schema fields of its other dialects is not known: those responses are validated.
    constrained_dialects: frozenset[str] = frozenset()
    # False: it accepts `strict` of a tool and ignores it.
    strict_tools: ClassVar[bool] = True
    # It ends a response at a stop sequence and leaves the sequence in the text, which the gateway then cuts.
    leaves_stop_in_text: ClassVar[bool] = False
    # The names of tools that it takes; others are sent under one that it does. None: no rule is known.
    tool_names: ToolNames | None = None
    # The field for a request id of ours, by which abort_request() stops a request where closing the connection does not.
    request_id_field: ClassVar[str | None] = None
    # In chat: the objects `thinking` and `reasoning` that it reads itself; the others are written as `reasoning_effort`. None: not known.
    thinking_fields: frozenset[str] | None = None
    # It reports the finish reason `stop` for responses with tool calls. Callers of Messages and Responses see calls anyway.
    stops_after_calls: bool = False
    # Its dialects in which it reads `cache_salt`: there each team gets a prefix cache of its own.
    salted_dialects: frozenset[str] = frozenset()
    # What makes its completions as long as a chat's would be, for a raw prompt that came to the chat route. None: nothing does.
    no_limit_fields: ClassVar[Mapping[str, Any] | None] = None
    # Its dialects for chats in which it goes on after the text of a final assistant message, with the fields that make it do so.
    continuation_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    # Its dialects in which a stream can say with each piece how many tokens it has written, where it is asked to.
    continuous_usage_dialects: ClassVar[frozenset[str]] = frozenset()
    # How it selects a LoRA adapter; None: it has none.
    lora_naming: ClassVar[AdapterNaming | None] = None

    # Which responses it is known to stop generating, and billing, when the gateway closes the connection. Of the others a caller who
    # disconnects is charged what was reserved: hosts report no usage to whoever has left.
    stops_on_disconnect: Literal["always", "streams", "never"] = "never"

    # In OpenAI's dialects: fields under another name; fields that it lacks or ignores; and of those, the ones that are only hints.
    renamed_fields: Mapping[str, str] = {}
    unsupported_fields: frozenset[str] = frozenset()
    hint_fields: frozenset[str] = frozenset()
    # In all of its dialects and routes: fields that are not open to callers, with what a request would choose by them.
    restricted_fields: Mapping[str, str] = {}

    # The beta with which it drops thinking blocks that are bound to another conversation, if asked to; None: it does not.
    binding_controls_beta: ClassVar[str | None] = None
    # Where it lists its models with what they accept; None: nothing is read by itself.
    model_list_path: ClassVar[str | None] = None
    # What hosts have refused in this process, which all of its providers share; see providers/learned_rules.
    learned_rules: LearnedRules = NOTHING_LEARNED
