"""Hugging Face's own small server, `transformers serve`. It enforces no constraint and demands no calls, and only streams can be stopped.

It answers 422 to unknown fields, and ignores many that it knows, with a line in its log. Sampling fields beyond temperature and top_p go
into the string `generation_config`; without `do_sample` in that, temperature and top_p have no effect either. Only its chat and completions
are used: its Responses stream by default, and hold times that strict clients reject. Observed on 5.23.0, 2026-11, whose cli/serving was
read too; tests/engines/small/test_transformers_direct.py proves it.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from providers import structured_output
from providers.adapters.messages import UNREAD_PARTS, drop_unsupported_parts, rename_developer_role
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.provider import Adapted
from providers.adapters.tools import adapt_functions
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.engines.transformers.fields import (
    CHAT_FIELDS,
    COMPLETIONS_FIELDS,
    DROP_REASONS,
    GENERATION_CONFIG_NAMES,
    HANDLED_ELSEWHERE,
    NEUTRAL_VALUES,
    SAMPLING_FIELDS,
    UNSUPPORTED_HINT_FIELDS,
)
from providers.structured_output import Constraint


class Transformers(OpenAICompatible):
    """States the fields that it supports, where other engines state those that they lack: it rejects unknown ones."""

    name: ClassVar[str] = "transformers"
    thinking_fields = frozenset()
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions")
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "streams"  # docs/sources.md: a non-streaming response is computed to its end
    strict_tools: ClassVar[bool] = False
    leaves_stop_in_text: ClassVar[bool] = True

    unsupported_fields: frozenset[str] = frozenset()
    hint_fields = UNSUPPORTED_HINT_FIELDS
    restricted_fields: Mapping[str, str] = {}
    unread_parts = UNREAD_PARTS

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        if "stream" not in options:
            self.streams = "only"
        self.stream_usage = False  # it always reports usage, on the chunk with the finish reason

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {}

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if dialect not in self.constrained_dialects:
            return super().adapt_request(body, dialect, may_drop, constraint)
        drop_policy = self.drop_policy(body, may_drop)
        drop_policy.drop_neutral(NEUTRAL_VALUES)
        if dialect == "openai_chat":
            _remove_uncalled_tools(body)
            adapt_functions(body, drop_policy)
            drop_unsupported_parts(body, UNREAD_PARTS, drop_policy)
            rename_developer_role(body)
        if body.has_value("logit_bias") and dialect == "openai_chat":
            # Integers are a 500 there (observed on 5.23).
            body["logit_bias"] = {id: float(bias) for id, bias in body.value("logit_bias").items()}
        supported = CHAT_FIELDS if dialect == "openai_chat" else COMPLETIONS_FIELDS
        for field in sorted(body.keys() - supported - GENERATION_CONFIG_NAMES.keys() - HANDLED_ELSEWHERE - self.hint_fields):
            drop_policy.drop_missing(field, DROP_REASONS.get(field, "it has no such field, or does nothing about it."))
        _move_sampling_fields(body)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        body.pop("stream_options", None)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted


def _remove_uncalled_tools(body: Body) -> None:
    """Removes the fields of tools where the choice is `none`, which it does not know, or where there are no tools."""
    if body.value("tool_choice") == "none" or not body.value("tools"):
        for field in ("tools", "tool_choice", "parallel_tool_calls"):
            body.pop(field, None)


def _move_sampling_fields(body: Body) -> None:
    """Moves sampling fields into generation_config, over what the caller has there. At temperature 0 it decodes greedily without them."""
    is_greedy = body.value("temperature") == 0
    moved = {engine_name: body.value(field_name) for field_name, engine_name in GENERATION_CONFIG_NAMES.items() if field_name in body}
    is_sampling = not is_greedy and any(field in body for field in SAMPLING_FIELDS)
    if not moved and not is_sampling:
        return
    config: dict[str, Any] = {}
    if "generation_config" in body:
        try:
            config = msgspec.json.decode(body.value("generation_config"), type=dict[str, Any])
        except (*DECODE_ERRORS, TypeError):
            raise InvalidRequest("`generation_config` must be a string that holds a JSON object.", param="generation_config") from None
    elif "max_tokens" not in body and "max_completion_tokens" not in body:
        config["max_new_tokens"] = 1024  # its default without a generation_config; with one it is 20
    if is_sampling:
        config["do_sample"] = True
    body["generation_config"] = msgspec.json.encode(config | moved).decode()
    for field in GENERATION_CONFIG_NAMES:
        body.pop(field, None)
