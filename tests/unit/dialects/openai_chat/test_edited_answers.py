"""A whole answer becomes the same by providers.wire as by the edit of its decoded body."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from providers import wire
from providers.canonical.errors import UpstreamError
from providers.dialect import OutboundResponse
from providers.dialects.openai_chat import edit
from providers.dialects.openai_chat.edit import edit_response
from tests.support.strategies.chat_strategies import META
from tests.support.wire_inputs import inputs


def edited(raw: bytes, model: str) -> OutboundResponse | str:
    try:
        return edit_response(raw, replace(META, model=model))
    except UpstreamError as error:
        return str(error)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_answer_edited_as_bytes_is_the_one_edited_as_json(seed: int) -> None:
    chosen = wire.edit_chat
    taken = 0
    for raw, _, _, model in inputs("edit_chat", 100, seed):
        if not model.isprintable():  # half of a surrogate pair, which no name of a model has
            continue
        if chosen(raw, META.id, META.episode_id, model) is None:  # then both are the edit of the decoded body
            continue
        taken += 1
        by_bytes = edited(raw, model)
        edit.wire.edit_chat = lambda *arguments: None  # pyright: ignore[reportUnknownLambdaType]
        try:
            assert by_bytes == edited(raw, model)
        finally:
            edit.wire.edit_chat = chosen
    assert taken > 10
