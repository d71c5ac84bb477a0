"""Thinking blocks that are bound to the conversation in which they were made, and refused once something before them has changed.

A dropped field, an instruction that the gateway adds or a fallback midway changes what is before a block. Anthropic then drops such blocks
itself, if it is asked to with every further request of the conversation. Source:
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/fix-bound-to-a-different-conversation, read 2026-11.
"""

import hashlib
import re
from typing import Any, cast

from providers.canonical.errors import UpstreamError, UpstreamRejected
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.learned_rules.rule import LearnedRule

_REFUSAL = re.compile(
    r"messages\.(?P<message>\d{1,6})\.content\.(?P<block>\d{1,6}): Invalid `signature` in `thinking` block\."
    r" The block is bound to a different conversation.*",
    re.DOTALL,
)
_SIGNATURE = re.compile(rb'"signature":\s*"([^"\\]{1,65536})"')
_DIALECT = "anthropic_messages"


def read_bound_block(error: UpstreamError) -> str | None:
    """The path of the first block that is bound to another conversation; None: the error is about something else."""
    if not isinstance(error, UpstreamRejected) or error.upstream_status != 400:
        return None
    found = _REFUSAL.fullmatch(error.message)
    return None if found is None else f"messages[{found['message']}].content[{found['block']}]"


def conversation_of(body: Body, dialect: str, provider: str, model: str) -> bytes | None:
    """Returns a digest of the first signature in a conversation, which stays the same in all its further requests.

    Provider and model are part of the digest. Returns None for a conversation without a signature, and in dialects other than Messages.
    """
    if dialect != _DIALECT or "messages" not in body:
        return None
    found = _SIGNATURE.search(bytes(as_raw(body["messages"])))
    if found is None:
        return None
    return hashlib.blake2b(b"\0".join((provider.encode(), model.encode(), found[1])), digest_size=16).digest()


def drop_unbound_blocks(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """Has the host drop the blocks. False for thinking without that setting, and for a caller who has chosen what happens."""
    thinking: Any = body.value("thinking") if body.has_value("thinking") else {"type": "adaptive"}
    if not isinstance(thinking, dict):
        return False
    fields = cast("dict[str, Any]", thinking)
    if fields.get("type") != "adaptive" or "block_binding" in fields:
        return False
    body["thinking"] = {**fields, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    drop_policy.report_dropped(rule.field)
    return True
