"""What laws and stories prove of hosts by cases of their own, beside what is replayed: each claim names its test.

By folder and feature (proofs.py), as file::function. A test here makes sure that they are there.
"""

from collections.abc import Mapping

CLAIMS: Mapping[str, Mapping[str, str]] = {
    "azure_openai": {
        "audio": "tests/laws/test_openai_hosted.py::test_azure_hears_sounds_in_chat_as_they_came",
    },
    "deepseek": {
        "structured output": "tests/laws/test_deepseek.py::test_a_schema_is_asked_for_in_words_and_looked_at",
    },
    "fireworks": {
        "structured output": "tests/laws/test_fireworks.py::test_a_schema_stays_as_its_caller_says_it",
    },
    "xai": {
        "structured output": "tests/laws/test_xai.py::test_a_schema_is_held_to_unless_it_says_what_grammars_do_not",
    },
    "aws_bedrock": {
        "reasoning sent back": "tests/laws/test_bedrock_answers.py::test_what_it_minted_comes_back_to_it_through_every_caller",
        "token counting": "tests/laws/test_bedrock.py::test_tokens_are_counted_of_the_body_that_claude_would_be_sent",
    },
    "cohere": {"embeddings": "tests/laws/test_cohere_beside.py::test_texts_are_embedded_in_its_words"},
    "gcp_vertex_anthropic": {
        "token counting": "tests/laws/test_vertex.py::test_claudes_tokens_are_counted_where_all_of_them_are",
    },
    "gcp_vertex_gemini": {
        "reasoning sent back": "tests/laws/test_gemini_carriers.py::test_parts_come_back_to_gemini_as_it_said_them",
        "token counting": "tests/laws/test_vertex.py::test_geminis_tokens_are_counted_in_googles_words",
    },
    "google_ai_studio": {
        "reasoning sent back": "tests/laws/test_gemini_carriers.py::test_parts_come_back_to_gemini_as_it_said_them",
        "token counting": "tests/laws/test_gemini_host.py::test_what_is_counted_is_the_request_that_would_be_answered",
    },
    "openrouter": {"reasoning sent back": "tests/laws/test_openrouter.py::test_sealed_reasoning_comes_back_as_it_came"},
}
