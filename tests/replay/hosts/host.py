"""Everything that replaying a host's recordings needs: its configuration, canonical requests, and expected responses.

All of it is derived from the recording by code that is independent of the adapters and dialects in providers/.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import Situation
from tests.replay.hosts.recordings import Recording


class ProviderTarget(Struct, frozen=True, kw_only=True):
    """The `[providers.NAME]` section for a recording, without base URL, and the target's model."""

    adapter: str
    model: str
    options: Mapping[str, Any] = {}
    secret: str | None = "sk-of-a-test-1234567890"  # the credential, as a file holds it
    dialect: str | None = None  # the dialect of the recording, where the host speaks several: callers of others must reach it by this one


class NonChatRequest(Struct, frozen=True):
    """A request that is not a chat (embeddings, a token count, a completion): the caller's body and the gateway's route."""

    route: str
    body: Mapping[str, Any]
    check: Callable[[Any], None]  # asserts that the caller's response is right, given its JSON, or the list of events of a stream


class ExpectedError(Struct, frozen=True):
    """The error that the caller gets for one of the host: the gateway's status, and the host's own code (`details.code`)."""

    status: int
    code: str | None = None


class Host(Struct, frozen=True, kw_only=True):
    """A host's recordings and how they are replayed. All mappings by recording are by its name."""

    folder: str
    recordings: list[Recording]
    provider_target: Callable[[Recording], ProviderTarget]
    # the request of a recording as a ChatRequest; None if it is not a chat: then `non_chat` has it
    chat: Callable[[Recording], ChatRequest | None]
    # of a successful chat, the response that callers of every dialect must get (tests/conformance/expected_responses.py)
    expected: Callable[[Recording], Situation]
    # a request body, recorded or sent, in a form in which equal meanings compare equal, without model and stream
    normalize: Callable[[Any], Any]
    # the same for the path (without the base URL's prefix), where model and mode may be
    normalize_path: Callable[[str], str] = lambda path: path
    non_chat: Callable[[Recording], NonChatRequest | None] = lambda recording: None
    expected_errors: Mapping[str, ExpectedError] = {}  # of an error response, the error that the caller gets
    # why the gateway's request differs, and a function that turns the recorded normal form into the gateway's
    known_differences: Mapping[str, tuple[str, Callable[[Any], Any]]] = {}
    # the field that the gateway refuses, because the host refused it too or it is unsupported; nothing is sent
    refused_params: Mapping[str, str] = {}
    # the field that the host refused, and that the gateway honours itself: the host is sent a request without it
    emulated_params: Mapping[str, str] = {}
    # by recording and caller's dialect, why this caller cannot send the request or get all of its response
    excluded_callers: Mapping[tuple[str, str], str] = {}
    # by feature of evidence_table.py, why there is nothing to test: the host lacks it, or the gateway refuses it
    missing_features: Mapping[str, str] = {}
