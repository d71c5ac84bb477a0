"""Features of hosts that unit tests show, in addition to what is replayed: the test of each, as file::function.

By host folder and feature of evidence_table.py. test_provider_evidence.py checks that the tests exist.
"""

from collections.abc import Mapping

UNIT_EVIDENCE: Mapping[str, Mapping[str, str]] = {
    "azure_openai": {
        "audio": "tests/unit/hosted/test_openai_and_azure.py::test_azure_receives_audio_input_unchanged",
    },
    "deepseek": {
        "structured output": (
            "tests/unit/hosted/test_deepseek.py::test_json_schema_becomes_json_object_with_an_instruction_and_is_validated"
        ),
    },
    "fireworks": {
        "structured output": "tests/unit/hosted/test_fireworks.py::test_json_schema_response_format_is_sent_unchanged_and_enforced",
    },
    "xai": {
        "structured output": "tests/unit/hosted/test_xai.py::test_schema_is_enforced_or_validated_by_its_grammar_coverage",
    },
    "aws_bedrock": {
        "reasoning sent back": (
            "tests/unit/dialects/aws/test_bedrock_converse_read_response.py::test_opaque_blocks_round_trip_through_every_caller_dialect"
        ),
        "token counting": "tests/unit/hosted/test_bedrock_adapter.py::test_token_count_wraps_the_body_that_claude_would_be_sent",
    },
    "cohere": {"embeddings": "tests/unit/hosted/test_cohere_embeddings_and_rerank.py::test_embeddings_are_translated_to_and_from_cohere"},
    "gcp_vertex_anthropic": {
        "token counting": "tests/unit/hosted/test_vertex.py::test_claude_token_count_uses_the_shared_count_tokens_url",
    },
    "gcp_vertex_gemini": {
        "reasoning sent back": (
            "tests/unit/dialects/hosts/test_gemini_round_trip.py::test_parts_return_to_gemini_unchanged_through_every_caller"
        ),
        "token counting": "tests/unit/hosted/test_vertex.py::test_gemini_token_count_is_translated_to_count_tokens",
    },
    "google_ai_studio": {
        "reasoning sent back": (
            "tests/unit/dialects/hosts/test_gemini_round_trip.py::test_parts_return_to_gemini_unchanged_through_every_caller"
        ),
        "token counting": "tests/unit/hosted/test_google_ai_studio.py::test_count_tokens_counts_the_translated_generate_request",
    },
    "openrouter": {
        "reasoning sent back": (
            "tests/unit/hosted/test_openrouter.py::test_reasoning_details_come_back_unchanged_through_every_official_client"
        ),
    },
}
