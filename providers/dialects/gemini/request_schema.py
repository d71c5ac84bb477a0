"""The documented fields of requests to generateContent. Unknown fields are allowed.

Sources: https://ai.google.dev/api/generate-content and the types of google-genai 3.6.1, read 2026-11.
"""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

Object = dict[str, Raw]
NonNegative = Annotated[int, Meta(ge=0)]


class Blob(Struct):
    """The bytes of a file. `data`: base64."""

    mimeType: str
    data: str
    displayName: str | None = None


class FileData(Struct):
    """A file at an address. Google's own files need no `mimeType`."""

    fileUri: str
    mimeType: str | None = None
    displayName: str | None = None


class FunctionCall(Struct):
    name: Annotated[str, Meta(min_length=1)]
    id: str | None = None
    args: Object | None = None


class ResponsePart(Struct):
    """A file in the result of a function."""

    inlineData: Blob | None = None
    fileData: FileData | None = None


class FunctionResponse(Struct):
    """The result of a function. Without an id it belongs to the first call of the function that has no result yet."""

    name: Annotated[str, Meta(min_length=1)]
    id: str | None = None
    response: Object | None = None
    parts: list[ResponsePart] | None = None


class Part(Struct):
    """A part of any kind; one with none of these fields is of a kind that only Gemini has."""

    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    inlineData: Blob | None = None
    fileData: FileData | None = None
    functionCall: FunctionCall | None = None
    functionResponse: FunctionResponse | None = None


class Content(Struct):
    """A message. Without a role it is the user's."""

    parts: list[Part] | None = None
    role: Literal["user", "model", "function", "system", ""] | None = None


class SystemInstruction(Struct):
    """The instructions. Their role means nothing."""

    parts: list[Part] | None = None


class FunctionDeclaration(Struct):
    """A function. `parameters` is a schema of OpenAPI's kind, `parametersJsonSchema` any JSON schema: one of them may be sent."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: Object | None = None
    parametersJsonSchema: Object | None = None


class Tool(Struct):
    """Functions of the caller, or tools that Google runs itself."""

    functionDeclarations: list[FunctionDeclaration] | None = None


class FunctionCallingConfig(Struct):
    mode: Literal["AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"] | None = None
    allowedFunctionNames: list[str] | None = None


class ToolConfig(Struct):
    functionCallingConfig: FunctionCallingConfig | None = None


class ThinkingConfig(Struct):
    """How much to think. A budget of 0 is none, of -1 as much as the model decides."""

    includeThoughts: bool | None = None
    thinkingBudget: Annotated[int, Meta(ge=-1)] | None = None
    thinkingLevel: str | None = None


class GenerationConfig(Struct):
    """Parameters of the response."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    topP: Annotated[float, Meta(ge=0, le=1)] | None = None
    topK: Annotated[float, Meta(ge=0)] | None = None
    candidateCount: Annotated[int, Meta(ge=1)] | None = None
    maxOutputTokens: Annotated[int, Meta(ge=1)] | None = None
    stopSequences: list[str] | None = None
    seed: int | None = None
    responseMimeType: str | None = None
    responseSchema: Object | None = None
    responseJsonSchema: Object | None = None
    responseLogprobs: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    presencePenalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequencyPenalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    thinkingConfig: ThinkingConfig | None = None


class GenerateContentRequest(Struct, kw_only=True):
    """A request for a response, as its body is sent. `labels` are kept as tags."""

    contents: Annotated[list[Content], Meta(min_length=1)]
    systemInstruction: SystemInstruction | None = None
    tools: list[Tool] | None = None
    toolConfig: ToolConfig | None = None
    generationConfig: GenerationConfig | None = None
    safetySettings: list[Object] | None = None
    cachedContent: str | None = None
    labels: dict[str, str] | None = None
    store: bool | None = None
    serviceTier: str | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")


class GenerateRequest(GenerateContentRequest, kw_only=True):
    """The same, with what its address says."""

    model: str
    stream: bool | None = None
