"""Instructions midway in a conversation: where models take them, and as the user's texts where they do not."""

from providers.canonical.chat import Message, Text, ToolCall, ToolResult
from providers.canonical.instructions import place_instructions

SYSTEM, LATER, LAST = (Message("system", (Text(text),)) for text in ("Rules.", "In Welsh.", "Be brief."))
USER, MORE = Message("user", (Text("Hello"),)), Message("user", (Text("Go on."),))
ANSWER, CALL = Message("assistant", (Text("Yes?"),)), Message("assistant", (ToolCall("c", "f", "{}"),))
RESULT = Message("user", (ToolResult("c", (Text("rain"),)),))
MARKED = Message("user", (Text("<system>\nIn Welsh.\n</system>"),))


def test_conversation_without_later_instructions_stays_as_it_is():
    assert place_instructions((SYSTEM, LATER, USER, ANSWER, MORE), later="as_user") is None


def test_later_instruction_becomes_marked_text_of_the_user_where_it_stands():
    placed = place_instructions((SYSTEM, USER, ANSWER, USER, LATER, MORE), later="as_user")
    assert placed is not None and placed.messages == (SYSTEM, USER, ANSWER, USER, MARKED, MORE)
    assert (placed.indexes, placed.marked) == ((0, 1, 2, 3, 4, 5), (4,))


def test_results_stay_right_behind_their_calls():
    placed = place_instructions((USER, CALL, LATER, RESULT), later="as_user")
    assert placed is not None and placed.messages == (USER, CALL, RESULT, MARKED) and placed.indexes == (0, 1, 3, 2)


def test_later_instructions_end_the_turn_in_one_system_message():
    placed = place_instructions((USER, LATER, MORE, LAST, ANSWER, MORE), later="after_users")
    assert placed is not None and placed.marked == () and placed.indexes == (0, 2, 1, 4, 5)
    assert placed.messages == (USER, MORE, Message("system", (Text("In Welsh."), Text("Be brief."))), ANSWER, MORE)


def test_instruction_without_a_turn_of_the_users_is_marked():
    placed = place_instructions((USER, ANSWER, LATER), later="after_users")
    assert placed is not None and placed.messages == (USER, ANSWER, MARKED) and placed.marked == (2,)


def test_text_stands_between_results_and_an_instruction_where_a_model_needs_it():
    for ends_results, kinds in ((True, [ToolResult, Text]), (False, [ToolResult])):
        placed = place_instructions((USER, CALL, RESULT, LATER), later="after_users", ends_results=ends_results)
        assert placed is not None and [type(part) for part in placed.messages[2].parts] == kinds and placed.messages[3].role == "system"
