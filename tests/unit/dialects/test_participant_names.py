"""Names of participants at targets whose messages have no field for them."""

import pytest
from msgspec import Raw

from providers.canonical.chat import Citation, Image, Inline, Message, Text
from providers.canonical.errors import Unsupported
from providers.drop_policy import DropPolicy
from providers.participant_names import write_participant_names

IMAGE = Image(Inline("image/png", "iVBORw=="))


def policy(*droppable: str) -> DropPolicy:
    return DropPolicy(lambda field: field in droppable, {}, "a host")


def test_messages_without_names_are_the_same_object():
    messages = (Message("user", (Text("Hi"),)),)
    assert write_participant_names(messages, policy()) is messages


def test_name_stands_before_the_first_text():
    messages = [Message("user", (IMAGE, Text("What?"), Text("Well?")), name="Ann"), Message("system", (Text("Be brief."),), name="Rules")]
    named = write_participant_names(messages, policy())
    assert [message.parts for message in named] == [(IMAGE, Text("Ann said:\nWhat?"), Text("Well?")), (Text("Rules said:\nBe brief."),)]
    assert all(message.name is None for message in named)


def test_assistants_are_named_only_if_there_are_several():
    cited = Text("Yes.", (Citation("a host", Raw(b"{}"), "https://a", None, None, 0, 3),))
    writer, critic = Message("assistant", (cited,), name="Writer"), Message("assistant", (Text("No."),), name="Critic")
    drop_policy = policy()
    assert write_participant_names([writer, writer], drop_policy)[0].parts == (cited,)
    assert drop_policy.dropped == ["messages[0].name", "messages[1].name"]
    drop_policy = policy()
    named = write_participant_names([writer, critic], drop_policy)
    assert [message.parts for message in named] == [(Text("Writer said:\nYes."),), (Text("Critic said:\nNo."),)] and not drop_policy.dropped


def test_name_of_a_message_without_text_is_refused_or_dropped():
    message = Message("user", (IMAGE,), name="Ann")
    with pytest.raises(Unsupported, match="no text"):
        write_participant_names([message], policy())
    (unnamed,) = write_participant_names([message], policy("messages[0].name"))
    assert unnamed == Message("user", (IMAGE,))
