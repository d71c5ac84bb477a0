"""Cases of requests: output formats, sampling and reasoning."""

from typing import Any

from tests.conformance.request_case import DropReported, Refused, RequestCase, Translated
from tests.conformance.request_samples import SCHEMA, translated_everywhere
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

CHAT_FORMAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}}
RESPONSES_FORMAT = {"text": {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA, "strict": True}}}
ANTHROPIC_FORMAT = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}

OUTPUTS = (
    RequestCase(
        "output",
        "JSON schema",
        {CHAT: CHAT_FORMAT, RESPONSES: RESPONSES_FORMAT, ANTHROPIC: ANTHROPIC_FORMAT},
        {
            f"{ANTHROPIC}>{CHAT}": Translated(
                {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}}
            ),
            f"{ANTHROPIC}>{RESPONSES}": Translated(
                {"text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}}
            ),
            CHAT: Translated(CHAT_FORMAT),
            RESPONSES: Translated(RESPONSES_FORMAT),
            ANTHROPIC: Translated(ANTHROPIC_FORMAT),
        },
    ),
    RequestCase(
        "output",
        "JSON object",
        {CHAT: {"response_format": {"type": "json_object"}}, RESPONSES: {"text": {"format": {"type": "json_object"}}}},
        {
            CHAT: Translated({"response_format": {"type": "json_object"}}),
            RESPONSES: Translated({"text": {"format": {"type": "json_object"}}}),
            f"{CHAT}>{ANTHROPIC}": Refused("response_format"),
            f"{RESPONSES}>{ANTHROPIC}": Refused("text.format"),
        },
    ),
    # For a target of the same API it is written in vLLM's current field, which adapters convert to what their engines obey.
    RequestCase(
        "output",
        "regex",
        {CHAT: {"structured_outputs": {"regex": "[a-z]+"}}},
        {target: Refused("structured_outputs") for target in (RESPONSES, ANTHROPIC)},
    ),
    RequestCase(
        "output",
        "verbosity",
        {CHAT: {"verbosity": "low"}, RESPONSES: {"text": {"verbosity": "low"}}},
        {
            CHAT: Translated({"verbosity": "low"}),
            RESPONSES: Translated({"text": {"verbosity": "low"}}),
            f"{CHAT}>{ANTHROPIC}": DropReported(("verbosity",)),
            f"{RESPONSES}>{ANTHROPIC}": DropReported(("text.verbosity",)),
        },
    ),
    RequestCase(
        "output",
        "audio output",
        {CHAT: {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}},
        {RESPONSES: Refused("modalities"), ANTHROPIC: Refused("modalities")},
    ),
)


def openai_only(feature: str, field: str, value: Any) -> RequestCase:
    """A field of OpenAI chat that neither of the other APIs has."""
    return RequestCase("sampling", feature, {CHAT: {field: value}}, {RESPONSES: Refused(field), ANTHROPIC: Refused(field)})


SAMPLING = (
    translated_everywhere(
        "sampling",
        "token limit",
        {CHAT: {"max_completion_tokens": 50}, RESPONSES: {"max_output_tokens": 50}, ANTHROPIC: {"max_tokens": 50}},
    ),
    translated_everywhere("sampling", "temperature", {dialect: {"temperature": 0.5} for dialect in (CHAT, RESPONSES, ANTHROPIC)}),
    RequestCase(
        "sampling",
        "temperature over 1",
        {CHAT: {"temperature": 1.5}, RESPONSES: {"temperature": 1.5}},
        {CHAT: Translated({"temperature": 1.5}), RESPONSES: Translated({"temperature": 1.5}), ANTHROPIC: Refused("temperature")},
    ),
    translated_everywhere("sampling", "top_p", {dialect: {"top_p": 0.5} for dialect in (CHAT, RESPONSES, ANTHROPIC)}),
    RequestCase(
        "sampling",
        "top_k",
        {CHAT: {"top_k": 5}, ANTHROPIC: {"top_k": 5}},
        {CHAT: Translated({"top_k": 5}), RESPONSES: Refused("top_k"), ANTHROPIC: Translated({"top_k": 5})},
    ),
    RequestCase(
        "sampling",
        "stop sequences",
        {CHAT: {"stop": ["END"]}, ANTHROPIC: {"stop_sequences": ["END"]}},
        {
            CHAT: Translated({"stop": ["END"]}),
            ANTHROPIC: Translated({"stop_sequences": ["END"]}),
            f"{CHAT}>{RESPONSES}": Refused("stop"),
            f"{ANTHROPIC}>{RESPONSES}": Refused("stop_sequences"),
        },
    ),
    RequestCase("sampling", "seed", {CHAT: {"seed": 7}}, {RESPONSES: DropReported(("seed",)), ANTHROPIC: DropReported(("seed",))}),
    openai_only("several choices", "n", 2),
    openai_only("frequency penalty", "frequency_penalty", 0.5),
    openai_only("presence penalty", "presence_penalty", 0.5),
    openai_only("logit bias", "logit_bias", {"50256": -100}),
    openai_only("min_p (of engines)", "min_p", 0.1),
    RequestCase(
        "sampling",
        "penalties of 0, one choice, no logprobs",
        {CHAT: {"n": 1, "frequency_penalty": 0, "presence_penalty": 0, "logprobs": False}},
        {RESPONSES: Translated(), ANTHROPIC: Translated()},
    ),
    RequestCase(
        "sampling",
        "logprobs",
        {
            CHAT: {"logprobs": True, "top_logprobs": 2},
            RESPONSES: {"include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 2},
        },
        {
            CHAT: Translated({"logprobs": True, "top_logprobs": 2}),
            RESPONSES: Translated({"include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 2}),
            f"{CHAT}>{ANTHROPIC}": Refused("logprobs"),
            f"{RESPONSES}>{ANTHROPIC}": Refused("include"),
        },
    ),
)

REASONING = (
    RequestCase(
        "reasoning",
        "effort",
        {
            CHAT: {"reasoning_effort": "high"},
            RESPONSES: {"reasoning": {"effort": "high"}},
            ANTHROPIC: {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        },
        {
            CHAT: Translated({"reasoning_effort": "high"}),
            RESPONSES: Translated({"reasoning": {"effort": "high"}}),
            ANTHROPIC: Translated({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        },
    ),
    RequestCase(
        "reasoning",
        "no reasoning",
        {CHAT: {"reasoning_effort": "none"}, RESPONSES: {"reasoning": {"effort": "none"}}, ANTHROPIC: {"thinking": {"type": "disabled"}}},
        {
            CHAT: Translated({"reasoning_effort": "none"}),
            RESPONSES: Translated({"reasoning": {"effort": "none"}}),
            ANTHROPIC: Translated({"thinking": {"type": "disabled"}}),
        },
    ),
    RequestCase(
        "reasoning",
        "thinking budget",
        {ANTHROPIC: {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 5000}}},
        {
            CHAT: Translated({"max_completion_tokens": 9000, "reasoning_effort": "medium"}, "effort", ("thinking.budget_tokens",)),
            RESPONSES: Translated({"max_output_tokens": 9000, "reasoning": {"effort": "medium"}}, "effort", ("thinking.budget_tokens",)),
        },
    ),
    RequestCase(
        "reasoning",
        "summary of reasoning",
        {RESPONSES: {"reasoning": {"effort": "low", "summary": "auto"}}},
        {
            CHAT: DropReported(("reasoning.summary",), {"reasoning_effort": "low"}),
            ANTHROPIC: Translated({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}}),
        },
    ),
)
