"""What a family of hosts gives to have its recordings replayed: how to reach it, what was asked, and what callers must hear.

All of it is read from the recording by plain code, that knows nothing of how adapters and dialects read and write.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import Situation
from tests.replay.hosts.recordings import Recording


class ProviderTarget(Struct, frozen=True, kw_only=True):
    """`[providers.NAME]` for a recording, without its address; and the target's model. `secret`: the credential, as a file holds it.

    `dialect`: where the recording shows one of several that the host speaks, and callers of others are to reach it by that one.
    """

    adapter: str
    model: str
    options: Mapping[str, Any] = {}
    secret: str | None = "sk-of-a-test-1234567890"
    dialect: str | None = None


class NonChatRequest(Struct, frozen=True):
    """What is asked beside chats (embeddings, a count of tokens, a raw prompt): the caller's body on a route of ours, and what must come.

    `check`: of the caller's answer: the JSON of a whole one, the list of events of a stream. Asserts.
    """

    route: str
    body: Mapping[str, Any]
    check: Callable[[Any], None]


class ExpectedError(Struct, frozen=True):
    """What the caller is told of an error of the host's: our status, and the host's own word (details.code)."""

    status: int
    code: str | None = None


class Host(Struct, frozen=True, kw_only=True):
    """`recordings`: all that are replayed. `chat`: what a recorded request asks; None: it is no chat, and `plain` tells it.

    `expected`: of a chat that was answered: what callers of every dialect must hear (tests/conformance/expected_responses.py). `refusals`: of
    one that was not, by name.
    `alike`: the normal form of a request's body, recorded or sent: what may differ and mean the same, made the same. The model and the
    mode are compared in the path instead where they stand there: `path` gives its normal form (base URL's prefix taken off).
    `differs`: by recording's name, why our request is another, and the recorded normal form made ours.
    `refused_here`: by name, the field for which we refuse what the host refused too, or what we do not support; it is never sent.
    `lacks`: by feature (tests/replay/hosts/evidence_table.py), why there is nothing to prove: the host has it not, or we refuse it.
    `unsaid`: by name and caller's dialect, why this caller cannot ask this or hear all of its answer: the pair is left out.
    """

    folder: str
    recordings: list[Recording]
    provider_target: Callable[[Recording], ProviderTarget]
    chat: Callable[[Recording], ChatRequest | None]
    expected: Callable[[Recording], Situation]
    normalize: Callable[[Any], Any]
    normalize_path: Callable[[str], str] = lambda path: path
    non_chat: Callable[[Recording], NonChatRequest | None] = lambda recording: None
    expected_errors: Mapping[str, ExpectedError] = {}
    known_differences: Mapping[str, tuple[str, Callable[[Any], Any]]] = {}
    refused_params: Mapping[str, str] = {}
    excluded_callers: Mapping[tuple[str, str], str] = {}
    missing_features: Mapping[str, str] = {}
