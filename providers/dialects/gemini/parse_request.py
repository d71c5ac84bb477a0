"""Parses a request to generateContent, and validates every documented field.

The model and whether to stream are in the address; the route has written both into the body.
"""

import contextlib
from collections.abc import Iterator

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.token_estimate import AUDIO_TOKENS, FILE_TOKENS, IMAGE_TOKENS, text_tokens
from providers.dialect import InboundRequest
from providers.dialects.gemini.field_spelling import with_camel_case
from providers.dialects.gemini.opaque_parts import NAME
from providers.dialects.gemini.opaque_states import holds_signature_carrier
from providers.dialects.gemini.request_schema import Blob, Content, FileData, FunctionDeclaration, GenerateRequest, GenerationConfig
from providers.fields import OUTPUT_BOUND_FIELDS, OUTPUT_BOUND_OBJECTS

_decoder = msgspec.json.Decoder(GenerateRequest)
_EMPTY_LIST = msgspec.Raw(b"[]")
_EMPTY_OBJECT = msgspec.Raw(b"{}")
_OPTIONAL_FIELDS = frozenset(GenerateRequest.__struct_fields__) - {"model", "contents"}
_OTHER_BOUNDS = OUTPUT_BOUND_FIELDS | OUTPUT_BOUND_OBJECTS


def parse_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest, which says what is wrong, where, and what is expected."""
    with contextlib.suppress(*DECODE_ERRORS):  # parse_body() says what is wrong
        raw = with_camel_case(raw)
    request, body = parse_body(raw, _decoder)
    _check(request, body)
    _leave_out_empty_fields(body)
    config = request.generationConfig or GenerationConfig()
    choices = config.candidateCount or 1
    has_files = b'"inlineData"' in raw or b'"fileData"' in raw
    return InboundRequest(
        dialect=NAME,
        body=body,
        model=request.model.removeprefix("models/"),
        stream=bool(request.stream),
        wants_usage=True,
        episode_id=parse_episode_id(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or request.labels or {},
        end_user=None,
        input_tokens=_input_tokens(raw, request) if has_files else text_tokens(len(raw)),
        output_tokens=None if config.maxOutputTokens is None else config.maxOutputTokens * choices,
        choices=choices,
        has_strict_tools=False,
        holds_only_text=not has_files,
        carries_state=holds_signature_carrier(raw),
    )


def _leave_out_empty_fields(body: Body) -> None:
    """Null means in every documented field what its absence does, and so does what is empty; other hosts refuse both."""
    for field in [field for field, value in body.items() if field in _OPTIONAL_FIELDS and value in (NULL, _EMPTY_LIST, _EMPTY_OBJECT)]:
        del body[field]
    if "tools" not in body and body.has_value("toolConfig") and set(body.value("toolConfig")) == {"functionCallingConfig"}:
        del body["toolConfig"]  # there is nothing to choose among


def _check(request: GenerateRequest, body: Body) -> None:
    """Validates what the types cannot express."""
    for index, content in enumerate(request.contents):
        _check_content(content, f"contents[{index}]")
    for index, tool in enumerate(request.tools or ()):
        for at, declaration in enumerate(tool.functionDeclarations or ()):
            _check_declaration(declaration, f"tools[{index}].functionDeclarations[{at}]")
    _check_tool_choice(request)
    config = request.generationConfig
    if config is not None:
        _check_config(config)
    for field in _OTHER_BOUNDS.intersection(body):
        raise InvalidRequest(f"There is no field `{field}`: write `generationConfig.maxOutputTokens`.", param=field)


def _check_content(content: Content, path: str) -> None:
    for index, part in enumerate(content.parts or ()):
        if part.functionCall is not None and content.role != "model":
            raise _invalid(f"{path}.parts[{index}].functionCall", "calls can only be in contents of the role `model`")
        if part.functionResponse is not None and content.role == "model":
            raise _invalid(f"{path}.parts[{index}].functionResponse", "results can only be in contents of the role `user`")
        if content.role == "model" and part.fileData is not None:
            raise _invalid(f"{path}.parts[{index}].fileData", "files can only be in contents of the role `user`")


def _check_declaration(declaration: FunctionDeclaration, path: str) -> None:
    if declaration.parameters is not None and declaration.parametersJsonSchema is not None:
        raise _invalid(f"{path}.parametersJsonSchema", "`parameters` is set as well: send one of them")


def _check_tool_choice(request: GenerateRequest) -> None:
    calling = None if request.toolConfig is None else request.toolConfig.functionCallingConfig
    if calling is None or not calling.allowedFunctionNames:
        return
    names = {declaration.name for tool in request.tools or () for declaration in tool.functionDeclarations or ()}
    for index, name in enumerate(calling.allowedFunctionNames):
        if name not in names:
            path = f"toolConfig.functionCallingConfig.allowedFunctionNames[{index}]"
            raise _invalid(path, f"no function {name!r:.60} is declared")


def _check_config(config: GenerationConfig) -> None:
    if config.responseSchema is not None and config.responseJsonSchema is not None:
        raise _invalid("generationConfig.responseJsonSchema", "`responseSchema` is set as well: send one of them")
    has_schema = config.responseSchema is not None or config.responseJsonSchema is not None
    if has_schema and config.responseMimeType not in ("application/json", "text/x.enum"):
        raise _invalid("generationConfig.responseMimeType", "a schema needs `application/json`, or `text/x.enum`")
    if config.logprobs and not config.responseLogprobs:
        raise _invalid("generationConfig.logprobs", "`responseLogprobs` must be true as well")


def _invalid(path: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"`{path}`: {problem}.", param=path)


def _input_tokens(raw: bytes, request: GenerateRequest) -> int:
    """An estimate. The body counts as text, tools and schemas included, except files."""
    inline_bytes = media = 0
    for file in _files(request):
        inline_bytes += len(file.data) if isinstance(file, Blob) else 0
        kind = (file.mimeType or "").partition("/")[0].lower()
        media += IMAGE_TOKENS if kind == "image" else AUDIO_TOKENS if kind == "audio" else FILE_TOKENS
    return text_tokens(max(0, len(raw) - inline_bytes)) + media


def _files(request: GenerateRequest) -> Iterator[Blob | FileData]:
    for content in request.contents:
        for part in content.parts or ():
            result = part.functionResponse
            for holder in (part, *((result.parts or ()) if result is not None else ())):
                if holder.inlineData is not None:
                    yield holder.inlineData
                if holder.fileData is not None:
                    yield holder.fileData
