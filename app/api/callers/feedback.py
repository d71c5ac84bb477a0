"""Feedback of callers: POST /v1/feedback, PUT and DELETE /v1/feedback/{id}, and POST /v1/feedback/batch for many in one request.

POST /feedback is TensorZero's.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Request, Response, Router, delete, post, put

from app.api.callers.authentication import authenticate_scope
from app.api.callers.caller_route import COUNT, OBJECT, TEXT, CallerRoute, Schema, list_of, object_with
from app.api.callers.tensorzero_feedback import read_tensorzero_feedback
from app.api.server.counted_body import counted_body
from app.api.server.response_headers import new_request_headers
from app.domain.callers import Caller
from app.gateway.feedback.intake import MAX_AT_ONCE
from app.gateway.feedback.request import FeedbackBody, check_feedback_id, check_idempotency_key, parse_feedback, too_many_slow_numbers
from app.gateway.feedback.value import MAX_DEMONSTRATION_BYTES
from app.gateway.pipeline.gateway import Gateway
from app.recording.spool.feedback_records import Feedback
from providers.canonical.errors import InvalidRequest, NarthexError, RequestError
from providers.canonical.slow_numbers import MOST_SLOW_NUMBERS, count_slow_numbers

MAX_BODY_BYTES = MAX_DEMONSTRATION_BYTES + 64 * 1024
MAX_BATCH_BYTES = 4 * 1024 * 1024


def routes(gateway: Gateway) -> Router:
    intake = gateway.feedback

    async def authenticate(request: Request[Any, Any, Any]) -> Caller:
        caller = await authenticate_scope(gateway.snapshot_cache, request.scope)
        if request.scope["query_string"]:
            raise InvalidRequest("This route takes no query parameters.")
        return caller

    async def check(caller: Caller, raw: bytes, *, header_key: str | None = None, corrects: str | None = None) -> Feedback:
        def parse_and_check() -> Feedback:
            return intake.check(caller, parse_feedback(raw), header_key=header_key, corrects=corrects)

        try:
            return await gateway.large_requests.of_team(caller.team_id).run_if_large(len(raw), parse_and_check)
        except InvalidRequest as error:
            gateway.telemetry.count_refused_feedback(_code_of(error))
            raise

    async def store(caller: Caller, feedback: Feedback) -> None:
        """Raises FeedbackConflict."""
        for conflict in (await intake.store(caller, [feedback])).values():
            gateway.telemetry.count_refused_feedback(_code_of(conflict))
            raise conflict

    @post("/v1/feedback", request_max_body_size=MAX_BODY_BYTES)
    async def send_feedback(request: Request[Any, Any, Any]) -> Response[bytes]:
        caller = await authenticate(request)
        async with counted_body(request, gateway.body_memory, caller) as raw:
            feedback = await check(caller, raw, header_key=_read_idempotency_key(request))
        await store(caller, feedback)
        return _respond(201, describe(feedback))

    @post("/feedback", status_code=200, request_max_body_size=MAX_BODY_BYTES)
    async def send_tensorzero_feedback(request: Request[Any, Any, Any]) -> Response[bytes]:
        caller = await authenticate(request)
        async with counted_body(request, gateway.body_memory, caller) as body:
            raw, is_dry_run = read_tensorzero_feedback(body)
            feedback = await check(caller, raw, header_key=_read_idempotency_key(request))
        if not is_dry_run:
            await store(caller, feedback)
        return _respond(200, {"feedback_id": feedback.feedback_id})

    @put("/v1/feedback/{id:str}", request_max_body_size=MAX_BODY_BYTES)
    async def correct_feedback(request: Request[Any, Any, Any], id: str) -> Response[bytes]:
        caller = await authenticate(request)
        async with counted_body(request, gateway.body_memory, caller) as raw:
            feedback = await check(caller, raw, corrects=check_feedback_id(id))
        await store(caller, feedback)
        return _respond(200, describe(feedback))

    @delete("/v1/feedback/{id:str}", status_code=200)
    async def withdraw_feedback(request: Request[Any, Any, Any], id: str) -> Response[bytes]:
        caller = await authenticate(request)
        feedback_id = check_feedback_id(id)
        await intake.withdraw(caller, feedback_id)
        return _respond(200, {"object": "feedback.withdrawn", "id": feedback_id, "withdrawn": True})

    @post("/v1/feedback/batch", status_code=200, request_max_body_size=MAX_BATCH_BYTES)
    async def send_batch(request: Request[Any, Any, Any]) -> Response[bytes]:
        caller = await authenticate(request)
        key = _read_idempotency_key(request)

        def check_lines(raw: bytes) -> list[Feedback | RequestError]:
            checked: list[Feedback | RequestError] = []
            slow_numbers = 0  # of all lines together: a body has few lines of hundreds, or hundreds of lines of a few
            for number, line in enumerate(split_lines(raw), 1):
                of_line = count_slow_numbers(line)
                if of_line and slow_numbers + of_line > MOST_SLOW_NUMBERS:
                    checked.append(too_many_slow_numbers())
                else:
                    slow_numbers += of_line
                    checked.append(check_line(number, line))
            return checked

        def check_line(number: int, line: bytes) -> Feedback | RequestError:
            try:
                return intake.check(caller, parse_feedback(line), header_key=key, line=number)
            except InvalidRequest as error:
                return error.without_frames()

        async with counted_body(request, gateway.body_memory, caller) as raw:
            checked = await gateway.large_requests.of_team(caller.team_id).run_if_large(len(raw), check_lines, raw)
        conflicts = await intake.store(caller, [each for each in checked if isinstance(each, Feedback)])
        results = [conflicts.get(each.id, each) if isinstance(each, Feedback) else each for each in checked]
        for each in results:
            if isinstance(each, RequestError):
                gateway.telemetry.count_refused_feedback(_code_of(each))
        return _respond(200, _describe_batch(results))

    return Router("/", route_handlers=[send_feedback, send_tensorzero_feedback, correct_feedback, withdraw_feedback, send_batch])


_INFERENCE_ID = "019aa3f4-7492-7b70-8347-9564aeb44a24"
_FEEDBACK: Schema = object_with(object=TEXT, id=TEXT, metric=TEXT)
DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="POST",
        path="/feedback",
        id="tensorzero_feedback",
        tag="TensorZero",
        summary="Say how good an inference or episode was, in TensorZero's shape",
        description="As /v1/feedback. Also taken: `dryrun` (checked, not stored) and `internal`.",
        prefix="Feedback",
        body=[FeedbackBody],
        example={"metric_name": "comment", "inference_id": _INFERENCE_ID, "value": "Just what I needed."},
        response=object_with(feedback_id=TEXT),
        errors=(408, 409, 413, 429),
        error_schema="TensorZeroError",
    ),
    CallerRoute(
        method="POST",
        path="/v1/feedback",
        id="send_feedback",
        tag="Callers",
        summary="Say how good an inference or episode was, by a metric",
        description="At any time: before, with or after the inference. It is stored durably, and matched with the inference later.",
        prefix="Feedback",
        body=[FeedbackBody],
        example={"metric": "comment", "inference_id": _INFERENCE_ID, "value": "Just what I needed."},
        response=_FEEDBACK,
        status=201,
        errors=(408, 409, 413, 429),
    ),
    CallerRoute(
        method="POST",
        path="/v1/feedback/batch",
        id="send_feedback_batch",
        tag="Callers",
        summary="Send up to 1000 lines of feedback",
        description="JSONL: each line as the body of `POST /v1/feedback`. Each line is accepted or refused by itself.",
        prefix="Feedback",
        body=[FeedbackBody],
        body_media_type="application/jsonl",
        response=list_of(OBJECT, object=TEXT, accepted=COUNT, refused=COUNT),
        errors=(408, 413, 429),
    ),
    CallerRoute(
        method="PUT",
        path="/v1/feedback/{id}",
        id="correct_feedback",
        tag="Callers",
        summary="Correct feedback: other feedback in its place",
        prefix="Feedback",
        body=[FeedbackBody],
        example={"metric": "comment", "inference_id": _INFERENCE_ID, "value": "On second thoughts, it is wrong."},
        response=_FEEDBACK,
        errors=(408, 413, 429),
    ),
    CallerRoute(
        method="DELETE",
        path="/v1/feedback/{id}",
        id="withdraw_feedback",
        tag="Callers",
        summary="Withdraw feedback, which then no longer counts",
        response=object_with(object=TEXT, id=TEXT, withdrawn={"type": "boolean", "const": True}),
        errors=(429,),
    ),
)


def _read_idempotency_key(request: Request[Any, Any, Any]) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None:
        check_idempotency_key(key)
    return key


def split_lines(raw: bytes) -> list[bytes]:
    """The lines of a batch, without the end of the last one. Raises InvalidRequest if there are none, or too many."""
    lines = raw.split(b"\n", MAX_AT_ONCE + 1)
    if not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InvalidRequest("The body is empty: it must be lines of JSON, each of them feedback as POST /v1/feedback takes it.")
    if len(lines) > MAX_AT_ONCE:
        raise InvalidRequest(f"The body has more than {MAX_AT_ONCE} lines: send the rest in further requests.")
    return lines


def describe(feedback: Feedback) -> dict[str, Any]:
    """Feedback as it was accepted."""
    return {
        "object": "feedback",
        "id": feedback.feedback_id,
        "metric": feedback.metric,
        f"{feedback.level}_id": feedback.target_id,
    }


def _describe_batch(checked: Sequence[Feedback | RequestError]) -> dict[str, Any]:
    results = [
        {"line": line, **(describe(each) if isinstance(each, Feedback) else {"object": "error", "error": _describe_error(each)})}
        for line, each in enumerate(checked, 1)
    ]
    refused = sum(isinstance(each, RequestError) for each in checked)
    return {"object": "feedback.batch", "accepted": len(checked) - refused, "refused": refused, "data": results}


def _describe_error(error: NarthexError) -> dict[str, Any]:
    return {"message": error.message, "type": error.kind, "code": error.code, "param": error.param}


def _code_of(error: RequestError) -> str:
    return error.code or "invalid_body"


def _respond(status: int, content: dict[str, Any]) -> Response[bytes]:
    return Response(msgspec.json.encode(content), status_code=status, media_type="application/json", headers=new_request_headers())
