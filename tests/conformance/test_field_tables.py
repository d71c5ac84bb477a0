"""docs/fields.md is generated, whole, and has a row for every field that an API documents."""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import anthropic.types.beta.message_create_params as messages_params
import msgspec
import openai.types.chat.completion_create_params as chat_params
import openai.types.completion_create_params as completions_params
import openai.types.embedding_create_params as embeddings_params
import openai.types.responses.response_create_params as responses_params
import pytest

from providers.catalogue import ADAPTERS
from providers.dialects.anthropic import request_schema as messages
from providers.dialects.gemini import request_schema as gemini
from providers.dialects.openai_chat import request_schema as chat
from providers.dialects.openai_completions import request_schema as completions
from providers.dialects.openai_embeddings import request_schema as embeddings
from providers.dialects.openai_responses import request_schema as responses
from tests.conformance.field_table_requests import CALLER_APIS, ENGINE_TARGETS, HOSTED_TARGETS, CallerApi
from tests.conformance.field_tables import PAGE, Handling, cells, tables

SCHEMAS: Mapping[str, Any] = {
    "Chat": chat.Request,
    "Completions": completions.Request,
    "Responses": responses.Request,
    "Messages": messages.MessagesRequest,
    "Gemini": gemini.GenerateRequest,
    "Embeddings": embeddings.Request,
}
# Objects of which each field means something of its own.
OBJECTS: Mapping[str, Mapping[str, Any]] = {
    "Responses": {"text": responses.Text, "reasoning": responses.Reasoning},
    "Messages": {"output_config": messages.OutputConfig},
    "Gemini": {"generationConfig": gemini.GenerationConfig},
}
SDK_FIELDS: Mapping[str, Any] = {
    "Chat": chat_params.CompletionCreateParamsBase,
    "Completions": completions_params.CompletionCreateParamsBase,
    "Responses": responses_params.ResponseCreateParamsBase,
    "Messages": messages_params.MessageCreateParamsBase,
    # The SDK has no type of the body: its fields are those of the schema.
    "Gemini": gemini.GenerateRequest,
    "Embeddings": embeddings_params.EmbeddingCreateParams,
}
# The model is the target; betas are a header.
NO_FIELDS = {"model", "betas", "generationConfig", "episode_id_prefixed", "tags_prefixed"}


def field_names(schema: Any) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(schema)}


def test_fields_page_holds_the_generated_tables():
    assert PAGE.read_text("utf-8").endswith(tables()), "update docs/fields.md: python -m tests.conformance.field_tables writes it"


@pytest.mark.parametrize("api", CALLER_APIS, ids=lambda api: api.title)
def test_every_field_has_one_handling_at_every_target_and_each_refusal_a_reason(api: CallerApi):
    table = cells(api.title)
    targets = (*ENGINE_TARGETS, *HOSTED_TARGETS)
    assert table.keys() == {(sample.path, target.title) for sample in api.samples for target in targets}
    assert {cell.handling for cell in table.values()} <= set(get_args(Handling))
    assert all(bool(cell.reason) == (cell.handling in ("refused", "neutral only")) for cell in table.values())


@pytest.mark.parametrize("api", CALLER_APIS, ids=lambda api: api.title)
def test_every_documented_field_is_a_row(api: CallerApi):
    rows = {sample.path for sample in api.samples}
    assert len(rows) == len(api.samples)
    roots = {sample.root for sample in api.samples}
    documented = field_names(SCHEMAS[api.title]) | get_type_hints(SDK_FIELDS[api.title]).keys()
    assert documented - roots <= NO_FIELDS
    for name, schema in OBJECTS.get(api.title, {}).items():
        assert {f"{name}.{field}" for field in field_names(schema)} <= rows


def test_every_adapter_is_a_target():
    # auto stands for the adapter of the engine that it detects.
    assert {target.adapter for target in (*ENGINE_TARGETS, *HOSTED_TARGETS)} == ADAPTERS.keys() - {"auto"}


@pytest.mark.parametrize("api", CALLER_APIS, ids=lambda api: api.title)
def test_neutral_values_pass_wherever_one_of_them_does(api: CallerApi):
    neutral_only = {place: cell for place, cell in cells(api.title).items() if cell.handling == "neutral only"}
    assert {place: cell.refused_neutral_values for place, cell in neutral_only.items() if cell.refused_neutral_values} == {}
