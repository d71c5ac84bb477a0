"""Same-dialect Responses whose calls lack arguments, names or ids, and whose numbers are strings: official SDKs can read them."""

import json
from typing import Any

import httpx2
import openai
import pytest

from app.gateway.response_translation import translate
from providers.canonical.errors import InvalidUpstreamResponse
from providers.dialects.catalogue import CALLER_DIALECTS, CHAT_DIALECTS
from tests.conformance.sdk_responses import FixedStreamTransport
from tests.unit.dialects.test_loose_responses import META
from tests.unit.dialects.test_unknown_endings import stream_bytes

RESPONSES = "openai_responses"
CITY = '{"city":"Oslo"}'
ABSENT: Any = ...


def whole(items: list[Any], **more: Any) -> Any:
    return {"id": "resp_1", "object": "response", "model": "m", "created_at": 1, "status": "completed", "output": items, **more}


def call(arguments: Any = CITY, name: Any = "now", call_id: Any = "call_1", **more: Any) -> dict[str, Any]:
    fields = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments, "status": "completed"}
    return {key: each for key, each in fields.items() if each is not ABSENT} | more


def edited(items: list[Any], **more: Any) -> Any:
    raw = json.dumps(whole(items, **more)).encode()
    return json.loads(translate.translate_response(raw, CALLER_DIALECTS[RESPONSES], CHAT_DIALECTS[RESPONSES], META).raw)


def streamed(events: list[Any]) -> list[Any]:
    editor = translate.make_stream_editor(CALLER_DIALECTS[RESPONSES], CHAT_DIALECTS[RESPONSES], META, streamed=True)
    raw = editor.feed(stream_bytes(RESPONSES, events)) + editor.finish()
    sent = [json.loads(line[6:]) for line in raw.decode().split("\n") if line.startswith("data: ")]
    assert [each["sequence_number"] for each in sent] == list(range(len(sent)))
    assert read_by_sdk(raw) == [(each["call_id"], each["name"], each["arguments"]) for each in sent[-1]["response"]["output"]]
    return sent


def read_by_sdk(raw: bytes) -> list[tuple[str, str, str]]:
    """The calls as the helper of the official SDK puts them together from the events, which adds deltas to texts."""
    transport = FixedStreamTransport()
    transport.set_stream(raw)
    sdk: Any = openai.OpenAI(api_key="key", base_url="http://narthex/v1", http_client=httpx2.Client(transport=transport), max_retries=0)
    with sdk.responses.stream(model="m", input="Hello") as stream:
        for _ in stream:
            pass
        return [(each.call_id, each.name, each.arguments) for each in stream.get_final_response().output]


@pytest.mark.parametrize("arguments", [None, ABSENT, "", " "], ids=repr)
def test_call_without_arguments_has_an_empty_object(arguments: Any) -> None:
    assert edited([call(arguments)])["output"] == [call("{}")]


def test_arguments_in_an_object_are_text_and_whole_calls_keep_their_bytes() -> None:
    assert edited([call({"city": "Oslo"})])["output"] == [call(CITY)]
    output = b'[{"type":"function_call", "name":"f","call_id":"1","arguments":"{ }","x":1.50}]'
    raw = b'{"id":"r","status":"completed","model":"m","output":%b}' % output
    assert output in (translate.translate_response(raw, CALLER_DIALECTS[RESPONSES], CHAT_DIALECTS[RESPONSES], META).raw)


@pytest.mark.parametrize("call_id", [None, ABSENT, ""], ids=repr)
def test_call_without_an_id_gets_that_of_its_item(call_id: Any) -> None:
    assert edited([call(call_id=call_id)])["output"][0]["call_id"] == "fc_1"
    assert edited([call(call_id=7)])["output"][0]["call_id"] == "7"


@pytest.mark.parametrize("name", [None, ABSENT, ""], ids=repr)
def test_call_without_a_name_is_an_invalid_response(name: Any) -> None:
    with pytest.raises(InvalidUpstreamResponse, match="without a name") as caught:
        edited([call(name=name)])
    assert caught.value.retry_elsewhere
    with pytest.raises(InvalidUpstreamResponse, match="without a name"):
        streamed([added(call("", name=name)), done(call(name=name)), ended(call(name=name))])


def test_numbers_in_strings_are_read() -> None:
    usage = {"input_tokens": "3", "output_tokens": "2", "total_tokens": "5"}
    body = edited([call()], created_at="1790000000", usage=usage)
    assert body["created_at"] == 1790000000 and body["usage"]["input_tokens"] == 3


def added(item: Any) -> Any:
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


def delta(text: str) -> Any:
    return {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": text}


def arguments_done(arguments: Any) -> Any:
    event = {"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc_1", "arguments": arguments}
    return {key: each for key, each in event.items() if each is not ABSENT}


def done(item: Any) -> Any:
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def ended(*items: Any) -> Any:
    return {"type": "response.completed", "response": whole([*items])}


NOTHING = [None, ABSENT, ""]
STREAMS: dict[str, tuple[list[Any], str]] = {
    "healthy": ([added(call("")), delta(CITY), arguments_done(CITY), done(call()), ended(call())], CITY),
    **{
        f"none at all: {nothing!r}": (
            [added(call(nothing)), arguments_done(nothing), done(call(nothing)), ended(call(nothing))],
            "{}",
        )
        for nothing in NOTHING
    },
    **{
        f"in deltas only: {nothing!r}": (
            [added(call(nothing)), delta('{"city":'), delta('"Oslo"}'), arguments_done(nothing), done(call(nothing)), ended(call(nothing))],
            CITY,
        )
        for nothing in (None, ABSENT)
    },
    "in deltas and the done event": ([added(call("")), delta(CITY), arguments_done(CITY), done(call(None)), ended(call(None))], CITY),
    "without a done event": ([added(call(None)), delta(CITY), done(call(None)), ended(call(None))], CITY),
    "as an object": ([added(call({})), done(call({"city": "Oslo"})), ended(call({"city": "Oslo"}))], CITY),
    "an object in the done event": ([added(call("")), arguments_done({"city": "Oslo"}), done(call()), ended(call())], CITY),
    "a late name": ([added(call("", name=None)), delta(CITY), arguments_done(CITY), done(call()), ended(call())], CITY),
    "a name in the last event": ([added(call("", name=None)), delta(CITY), ended(call())], CITY),
    "the last event alone": ([ended(call(None))], "{}"),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_streamed_call_is_whole_in_its_deltas_and_in_every_event_that_repeats_it(kind: str) -> None:
    events, arguments = STREAMS[kind]
    sent = streamed([{"type": "response.created", "response": {**whole([]), "status": "in_progress"}}, *events])
    of_kind = {kind: [each for each in sent if each["type"] == f"response.{kind}"] for kind in ("output_item.added", "output_item.done")}
    (start,), (end,) = of_kind["output_item.added"], of_kind["output_item.done"]
    assert (start["item"]["name"], start["item"]["arguments"]) == ("now", "")
    assert end["item"]["arguments"] == arguments
    assert "".join(each["delta"] for each in sent if each["type"].endswith("arguments.delta")) == arguments
    assert all(each["arguments"] == arguments for each in sent if each["type"].endswith("arguments.done"))
    assert [each["arguments"] for each in sent[-1]["response"]["output"]] == [arguments]


def test_healthy_call_is_sent_as_it_came() -> None:
    started = {**whole([]), "status": "in_progress"}
    heads = [{"type": f"response.{kind}", "response": started} for kind in ("created", "in_progress")]
    events = [{**each, "sequence_number": at} for at, each in enumerate([*heads, *STREAMS["healthy"][0]])]
    events[4]["name"] = "now"
    assert streamed(events)[2:6] == events[2:6]
