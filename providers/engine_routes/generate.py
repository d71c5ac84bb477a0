"""/generate: the model continues a text or token ids, streaming or not, in LMDeploy's or SGLang's own shape.

Both answer {"text", "output_ids", "meta_info"}, and stream objects of that form. `text` of a chunk is what is new at LMDeploy, and all so
far at SGLang, so that neither shape is translated into the other. /v1/completions is the common route.
Sources: LMDeploy 0.12 to 0.18, serve/openai/protocol.py (GenerateReqInput) and api_server.py; SGLang's io_struct.py and
sampling_params.py; read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import check_failure
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.sse import sse_frame
from providers.canonical.token_counts import plausible_count
from providers.canonical.token_estimate import text_tokens
from providers.canonical.upstream_errors import find_error
from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.read_response import read_object
from providers.engine_routes.route import RequestDecoder, Route
from providers.stream_editor import SSEStreamEditor

PositiveInt = Annotated[int, Meta(ge=1)]
# What both engines write at most without a bound; null would be no bound at SGLang.
_DEFAULT_OUTPUT_TOKENS = 128
# Of the chunks from the last one on: SGLang's has all of the text again.
_MAX_WITHHELD_BYTES = 16 * 1024 * 1024
_SGLANG_CONSTRAINTS = ("json_schema", "regex", "ebnf", "structural_tag")


class SGLangSamplingParams(Struct):
    """SGLang answers `n` above 1, and several texts, with a list of responses; here a request has one."""

    max_new_tokens: PositiveInt = _DEFAULT_OUTPUT_TOKENS
    n: Annotated[int, Meta(ge=1, le=1)] = 1


class LMDeployPrompt(Struct):
    """LMDeploy's request, with a text."""

    prompt: Annotated[str, Meta(min_length=1)]
    max_tokens: PositiveInt = _DEFAULT_OUTPUT_TOKENS


class SGLangText(Struct):
    """SGLang's request, with a text."""

    text: Annotated[str, Meta(min_length=1)]
    sampling_params: SGLangSamplingParams | None = None


class InputIds(Struct):
    """The request with token ids, of either engine."""

    input_ids: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1)]
    max_tokens: PositiveInt | None = None
    sampling_params: SGLangSamplingParams | None = None


class _FinishReason(Struct):
    type: str | None = None


class _MetaInfo(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: _FinishReason | None = None


class _Output(Struct):
    meta_info: _MetaInfo
    text: str | None = None


_decode_output = msgspec.json.Decoder(_Output).decode


class Generate(Route):
    """/generate."""

    name: ClassVar[str] = "generate"
    purpose: ClassVar[str] = "generates as LMDeploy's or SGLang's /generate does (/v1/completions is for all)"
    generates_text: ClassVar[bool] = True
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "prompt": msgspec.json.Decoder(LMDeployPrompt),
        "text": msgspec.json.Decoder(SGLangText),
        "input_ids": msgspec.json.Decoder(InputIds),
    }

    def estimate(self, request: LMDeployPrompt | SGLangText | InputIds) -> int:
        match request:
            case LMDeployPrompt(prompt=text) | SGLangText(text=text):
                return text_tokens(len(text.encode()))
            case InputIds():
                return len(request.input_ids)

    def output_bound(self, request: LMDeployPrompt | SGLangText | InputIds) -> int:
        match request:
            case InputIds(sampling_params=SGLangSamplingParams() as params):
                return max(params.max_new_tokens, request.max_tokens or 0)  # which of them holds depends on the engine
            case SGLangText(sampling_params=SGLangSamplingParams() as params):
                return params.max_new_tokens
            case LMDeployPrompt() | InputIds():
                return request.max_tokens or _DEFAULT_OUTPUT_TOKENS
            case SGLangText():
                return _DEFAULT_OUTPUT_TOKENS

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        body = read_object(raw)
        output = _read_output(raw)
        reason = _finish_reason(output)
        if output.text is None or reason is None:
            raise InvalidUpstreamResponse("The engine's response holds no finished text.")
        return OutboundResponse(body.write(), _usage(output), reason)

    def stream_editor(self, meta: ResponseMeta) -> "GenerateStreamEditor":
        return GenerateStreamEditor(meta)


class GenerateStreamEditor(SSEStreamEditor):
    """A stream editor that sends chunks on as they are, and holds back the last one."""

    def __init__(self, meta: ResponseMeta) -> None:
        super().__init__(meta)
        self._withheld: list[bytes] = []
        self._withheld_bytes = 0
        self._chunks = 0

    @property
    def written_tokens(self) -> int:
        """The engine's own count so far, or one per chunk: by their bytes SGLang's chunks, which repeat all text before, would be more."""
        reported = None if self.usage is None else self.usage.output
        return self._chunks if reported is None else reported

    def _edit_event(self, data: bytes) -> bytes:
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        body = Body.read_response(data)
        error = find_error(body)
        if error is not None:
            raise error
        if "meta_info" not in body:
            return b""  # a ping, or another object that is no chunk
        output = _read_output(data)
        self.usage = _usage(output)
        reason = _finish_reason(output)
        frame = sse_frame(body.write())
        if reason is None and not self._withheld:
            self._chunks += 1
            return frame
        self.finish_reason = self.finish_reason or reason
        self._withheld.append(frame)
        self._withheld_bytes += len(frame)
        if self._withheld_bytes > _MAX_WITHHELD_BYTES:
            raise InvalidUpstreamResponse("The engine's stream goes on after its last chunk.")
        return b""

    def _write_end(self) -> bytes:
        return b"".join(self._withheld) + b"data: [DONE]\n\n"

    def _release_before_failure(self) -> bytes:
        withheld, self._withheld = self._withheld, []
        return b"".join(withheld)


def _read_output(raw: bytes) -> _Output:
    try:
        return _decode_output(raw)
    except DECODE_ERRORS as error:
        raise InvalidUpstreamResponse(f"The engine's response is none of its /generate: {error}.") from None


def _finish_reason(output: _Output) -> str | None:
    """Returns None if the output has not finished.

    Raises UpstreamError for a reason that means that the response failed.
    """
    finished = output.meta_info.finish_reason
    reason = None if finished is None else finished.type
    check_failure(reason)
    return reason


def _usage(output: _Output) -> Usage:
    return Usage(plausible_count(output.meta_info.prompt_tokens), plausible_count(output.meta_info.completion_tokens))


def check_sampling_params(value: Any) -> str | None:
    """Returns why SGLang's sampling parameters are refused if they hold a constraint, or None if they hold none.

    Constraints are checked before an engine is called, which is done at the routes that have fields for them.
    """
    constraint = next((name for name in _SGLANG_CONSTRAINTS if name in value), None) if isinstance(value, dict) else None
    return f"`{constraint}` is for /v1/chat/completions and /v1/completions, as `response_format`." if constraint else None
