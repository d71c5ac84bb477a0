"""Recorded embeddings of hosts that speak OpenAI's API, each returned in both encodings.

The recordings are not part of this repository; without ../shared/exchanges these tests are skipped.
"""

import base64
import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai_embeddings import OpenAIEmbeddings

FOLDER = Path(__file__).parents[2].parent / "shared" / "exchanges"
if not FOLDER.is_dir():
    pytest.skip("the recordings of real hosts (../shared/exchanges) are not on this machine", allow_module_level=True)


def recordings() -> list[tuple[str, dict[str, Any]]]:
    """The successful exchanges in OpenAI's format, by name."""
    recorded = [(f"{path.parent.name}/{path.stem}", json.loads(path.read_text())) for path in sorted(FOLDER.glob("*/*embeddings*.json"))]
    return [(name, each) for name, each in recorded if each["path"] == "/v1/embeddings" and each["status"] == 200]


ALL = recordings()


def edit_response(recorded: dict[str, Any], encoding_format: str) -> tuple[Any, OutboundResponse]:
    request_body = {**recorded["request_body"], "encoding_format": encoding_format}
    if any("was cut to its first" in note for note in recorded.get("notes", ())):
        request_body.pop("dimensions", None)  # the recorder shortened the vector
    request = OpenAIEmbeddings().parse_request(json.dumps(request_body).encode())
    edited = OpenAIEmbeddings().edit_response(
        json.dumps(recorded["response_body"]).encode(), ResponseMeta("id", "episode", "a name", 0, True, request.body)
    )
    return json.loads(edited.raw), edited


@pytest.mark.parametrize("recorded", [recorded for _, recorded in ALL], ids=[name for name, _ in ALL])
def test_recorded_embeddings_come_in_the_requested_encoding(recorded: dict[str, Any]):
    numbers, edited = edit_response(recorded, "float")
    packed, _ = edit_response(recorded, "base64")
    [floats], [text] = ([each["embedding"] for each in body["data"]] for body in (numbers, packed))
    assert array("f", base64.b64decode(text)).tolist() == array("f", floats).tolist()
    usage = recorded["response_body"].get("usage")
    expected = {"usage": {"prompt_tokens": 0, "total_tokens": 0}, **recorded["response_body"]}
    assert {key: value for key, value in numbers.items() if key not in ("data", "model")} == {
        key: value for key, value in expected.items() if key not in ("data", "model")
    }
    assert edited.usage
    assert (edited.usage.input, edited.usage.output) == (usage["prompt_tokens"] if usage else None, 0)


def test_recordings_cover_both_encodings():
    kinds = {type(item["embedding"]).__name__ for _, recorded in ALL for item in recorded["response_body"]["data"]}
    assert kinds == {"str", "list"}
