"""Names of fields in snake case as in camel case: Google reads both, as protocol buffers do, and its own SDKs send both.

Only names of fields are rewritten: never keys of arguments, results, labels and JSON schemas, which are the caller's own.

Source: https://protobuf.dev/programming-guides/json/, read 2026-11.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import NULL, Body

# The fields of an object in camel case, with the fields of what each holds. None: nothing in it is a name of a field.
_Fields = dict[str, "_Fields | None"]


def _names(*names: str) -> _Fields:
    return dict.fromkeys(names)


_BLOB = _names("mimeType", "data", "displayName")
_FILE = _names("mimeType", "fileUri", "displayName")
_PART: _Fields = {
    **_names("text", "thought", "thoughtSignature", "executableCode", "mediaResolution", "partMetadata", "toolCall", "toolResponse"),
    "codeExecutionResult": None,
    "inlineData": _BLOB,
    "fileData": _FILE,
    "videoMetadata": _names("startOffset", "endOffset", "fps"),
    "functionCall": _names("id", "name", "args", "partialArgs", "willContinue"),
    "functionResponse": {
        **_names("id", "name", "response", "willContinue", "scheduling"),
        "parts": {"inlineData": _BLOB, "fileData": _FILE},
    },
}
_CONTENT: _Fields = {"role": None, "parts": _PART}
_SCHEMA: _Fields = _names(
    *("type", "format", "title", "description", "nullable", "enum", "default", "example", "required", "minItems", "maxItems"),
    *("minProperties", "maxProperties", "minLength", "maxLength", "pattern", "minimum", "maximum", "propertyOrdering"),
)
_ANY_KEY = "*"
_SCHEMA.update({"items": _SCHEMA, "anyOf": _SCHEMA, "properties": {_ANY_KEY: _SCHEMA}})
_DECLARATION: _Fields = {
    **_names("name", "description", "behavior", "parametersJsonSchema", "responseJsonSchema"),
    "parameters": _SCHEMA,
    "response": _SCHEMA,
}
_TOOL: _Fields = {
    **_names("googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "googleMaps", "computerUse", "fileSearch"),
    **_names("mcpServers", "enterpriseWebSearch", "retrieval"),
    "functionDeclarations": _DECLARATION,
}
_GENERATION: _Fields = {
    **_names("temperature", "topP", "topK", "candidateCount", "maxOutputTokens", "stopSequences", "seed", "responseMimeType"),
    **_names("responseJsonSchema", "responseLogprobs", "logprobs", "presencePenalty", "frequencyPenalty", "responseModalities"),
    **_names("mediaResolution", "speechConfig", "audioTimestamp", "imageConfig", "enableEnhancedCivicAnswers", "routingConfig"),
    **_names("modelSelectionConfig", "responseFormat"),
    "responseSchema": _SCHEMA,
    "thinkingConfig": _names("includeThoughts", "thinkingBudget", "thinkingLevel"),
}
_REQUEST: _Fields = {
    **_names("cachedContent", "labels", "store", "serviceTier", "modelArmorConfig"),
    "contents": _CONTENT,
    "systemInstruction": _CONTENT,
    "tools": _TOOL,
    "toolConfig": {
        "functionCallingConfig": _names("mode", "allowedFunctionNames"),
        **_names("retrievalConfig", "includeServerSideToolInvocations"),
    },
    "generationConfig": _GENERATION,
    "safetySettings": _names("category", "threshold", "method"),
}

_UNDERLINED = re.compile(r"_([a-z0-9])")
_UNDERLINED_KEY = re.compile(rb'"([a-z]+(?:_[a-z0-9]+)+)"\s*:')


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda each: "_" + each[0].lower(), name)


def _all_names(fields: _Fields, seen: set[int]) -> set[str]:
    if id(fields) in seen:
        return set()
    seen.add(id(fields))
    return {*fields, *(name for inner in fields.values() if inner is not None for name in _all_names(inner, seen))}


_SNAKE_NAMES = frozenset(_snake(name).encode() for name in _all_names(_REQUEST, set()) if _snake(name) != name)

_object = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Raw])


def with_camel_case(raw: bytes) -> bytes:
    """The body with the names of its fields in camel case; itself if they are, as mostly.

    Raises InvalidRequest for a field in both spellings, or one of DECODE_ERRORS for what is no JSON.
    """
    if not any(match[1] in _SNAKE_NAMES for match in _UNDERLINED_KEY.finditer(raw)):
        return raw
    return Body(_rewrite(_object.decode(raw), _REQUEST, "")).write()


def _rewrite(fields: Mapping[str, Raw], known: _Fields, path: str) -> dict[str, Any]:
    rewritten: dict[str, Any] = {}
    for key, value in fields.items():
        name = _UNDERLINED.sub(lambda each: each[1].upper(), key) if "_" in key else key
        if name != key and (name not in known or _ANY_KEY in known):
            name = key
        if name in rewritten:
            raise InvalidRequest(f"`{path}{name}` was sent in two spellings: send one of them.", param=f"{path}{name}")
        inner = known.get(name, known.get(_ANY_KEY))
        rewritten[name] = value if inner is None or value == NULL else _rewrite_value(value, inner, f"{path}{name}")
    return rewritten


def _rewrite_value(value: Raw, known: _Fields, path: str) -> Any:
    first = bytes(memoryview(value)[:1])
    if first == b"{":
        return _rewrite(_object.decode(value), known, f"{path}.")
    if first == b"[":
        items: Sequence[Raw] = _list.decode(value)
        return [_rewrite_value(each, known, f"{path}[{index}]") for index, each in enumerate(items)]
    return cast(Any, value)
