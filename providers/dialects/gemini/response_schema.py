"""The documented fields of a generateContent answer, as far as they mean something here; unknown ones pass.

Source: https://ai.google.dev/api/generate-content#GenerateContentResponse, read 2026-11.
"""

from msgspec import Raw, Struct

from providers.canonical.raw_json import NULL
from providers.dialects.gemini.partial_arguments import PartialArgument
from providers.dialects.gemini.usage import UsageMetadata


class Call(Struct):
    """`willContinue`: more of it comes, in `partialArgs`."""

    name: str | None = None
    id: str | None = None
    args: Raw = NULL
    partialArgs: list[PartialArgument] | None = None
    willContinue: bool = False


class Part(Struct):
    """What is none of these is of its own kind, and kept whole."""

    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    functionCall: Call | None = None


class Content(Struct):
    parts: list[Raw] | None = None


class Token(Struct):
    token: str = ""
    logProbability: float = 0.0


class TopCandidates(Struct):
    candidates: list[Token] | None = None


class Logprobs(Struct):
    topCandidates: list[TopCandidates] | None = None
    chosenCandidates: list[Token] | None = None


class Candidate(Struct):
    content: Content | None = None
    finishReason: str | None = None
    finishMessage: str | None = None
    index: int = 0
    groundingMetadata: Raw = NULL
    citationMetadata: Raw = NULL
    logprobsResult: Logprobs | None = None


class PromptFeedback(Struct):
    blockReason: str | None = None


class Frame(Struct):
    """A whole answer, or one event of a stream: they are alike."""

    candidates: list[Candidate] | None = None
    promptFeedback: PromptFeedback | None = None
    usageMetadata: UsageMetadata | None = None
    modelVersion: str = ""
    responseId: str | None = None
    createTime: str | None = None
    error: Raw = NULL
