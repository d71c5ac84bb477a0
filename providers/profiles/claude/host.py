"""The rules of a host of Claude beside those of the model: beta features, hints on tools, fields.

The rows are in providers/hosted/rules.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.drop_policy import DropPolicy

_objects = msgspec.json.Decoder(list[dict[str, Raw]])
_NEUTRAL_CALLERS = ["direct"]
_OUTPUT_CONFIG = "output_config"


class ClaudeHost(Struct, frozen=True, kw_only=True):
    """One host. A field that is missing here is sent as it came."""

    # Beta features that it knows; it refuses a request that names another.
    betas: frozenset[str]
    # Its own names of beta features.
    renamed_betas: Mapping[str, str] = {}
    # Hints on tools that it refuses.
    refused_tool_hints: frozenset[str] = frozenset()
    # The types of tools that it does not run or know.
    refused_tools: re.Pattern[str] | None = None
    # Fields of a body that it refuses, and that change no response, or only what it costs.
    refused_hints: frozenset[str] = frozenset()
    # Fields of a body that it refuses, and that ask for something.
    refused_fields: frozenset[str] = frozenset()
    # The models that take `output_config` on a message; None: none does.
    message_config_models: re.Pattern[str] | None = None
    # Whether it takes system messages among the others, where the model does.
    takes_mid_system: bool = True

    def select_betas(self, betas: bytes) -> tuple[bytes, bool]:
        """The header `anthropic-beta` with those that it knows, in its own names; and whether any is left out."""
        names = [name for each in betas.decode("latin-1").split(",") if (name := each.strip())]
        named = [self.renamed_betas.get(name, name) for name in names]
        known = [*dict.fromkeys(name for name in named if name in self.betas)]
        return ",".join(known).encode("latin-1"), any(name not in self.betas for name in named)

    def adapt_body(self, body: Body, model: str, drop_policy: DropPolicy) -> None:
        """Leaves out of a Messages body of a caller what the host refuses. Raises Unsupported, through the drop policy."""
        for field in [field for field in body if field in self.refused_hints]:
            drop_policy.drop_hint(field)
        for field in [field for field in body if field in self.refused_fields and body[field] != NULL]:
            drop_policy.drop_or_refuse(field, "it has no such field.")
        self._adapt_betas(body, drop_policy)
        if self.refused_tools is not None and "tools" in body:
            _refuse_tools(body, self.refused_tools, drop_policy)
        self._adapt_tools(body, drop_policy)
        if self.message_config_models is None or not self.message_config_models.search(model):
            _drop_message_configs(body, drop_policy)

    def _adapt_betas(self, body: Body, drop_policy: DropPolicy) -> None:
        """Those that a caller names in the body, as clients of clouds do."""
        betas: Any = body.value("anthropic_beta") if "anthropic_beta" in body else None
        if not isinstance(betas, list):
            return
        named: list[Any] = [self.renamed_betas.get(str(each), each) for each in betas]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        body["anthropic_beta"] = [*dict.fromkeys(each for each in named if each in self.betas)]
        if any(each not in self.betas for each in named):
            drop_policy.report_dropped("anthropic_beta")

    def _adapt_tools(self, body: Body, drop_policy: DropPolicy) -> None:
        raw = body.get("tools")
        if not isinstance(raw, Raw) or not any(b'"%s"' % hint.encode() in bytes(raw) for hint in self.refused_tool_hints):
            return

        def leave_out_hints(tool: dict[str, Raw], index: int) -> None:
            for hint in self.refused_tool_hints & tool.keys():
                value = msgspec.json.decode(tool.pop(hint))
                if value not in (None, False, _NEUTRAL_CALLERS):
                    drop_policy.report_dropped(f"tools[{index}].{hint}")

        _edit_objects(body, "tools", leave_out_hints)


def _refuse_tools(body: Body, refused: re.Pattern[str], drop_policy: DropPolicy) -> None:
    """Tools of these types; of a caller's own body, or of one that a dialect wrote."""
    tools: Any = body.value("tools")
    if not isinstance(tools, list):
        return  # the host says what is wrong
    kept: list[Any] = []
    for index, tool in enumerate(cast("list[Any]", tools)):
        kind: Any = cast("dict[str, Any]", tool).get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and refused.match(kind):
            drop_policy.drop_path_or_refuse(f"tools[{index}]", f"it has no tool of the type {kind:.80}.")
        else:
            kept.append(tool)
    if len(kept) < len(cast("list[Any]", tools)):
        body["tools"] = kept


def _drop_message_configs(body: Body, drop_policy: DropPolicy) -> None:
    """Drops `output_config` of messages, which says the effort from there on, and messages that say nothing else."""
    raw = body.get("messages")
    if not isinstance(raw, Raw) or b'"output_config"' not in bytes(raw):
        return

    def leave_out_config(message: dict[str, Raw], index: int) -> bool:
        if message.pop(_OUTPUT_CONFIG, NULL) == NULL:
            return True
        drop_policy.report_dropped(f"messages[{index}].{_OUTPUT_CONFIG}")
        return bytes(message.get("content", NULL)).replace(b" ", b"") != b"[]"

    _edit_objects(body, "messages", leave_out_config)


def _edit_objects(body: Body, field: str, edit: Callable[[dict[str, Raw], int], bool | None]) -> None:
    """Edits each object of a list in place; one for which `edit` returns False is left out."""
    try:
        objects = _objects.decode(body[field])
    except DECODE_ERRORS:
        return  # the host says what is wrong
    body[field] = [each for index, each in enumerate(objects) if edit(each, index) is not False]
