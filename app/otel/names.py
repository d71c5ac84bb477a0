"""Every name of what is exported: OpenTelemetry's semantic conventions, and our own, which begin with `narthex.`.

The conventions for generative AI are in development: those here are of version 1.41.0, the last release that holds them, which is what
backends and the Python helper read today. Sources: https://github.com/open-telemetry/semantic-conventions, v1.41.0, docs/gen-ai and
docs/http, and open-telemetry/semantic-conventions-genai (the renamed ones), read 2026-11.
"""

from collections.abc import Mapping

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
SCOPE = "narthex"

# Resource
SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"
SERVICE_INSTANCE_ID = "service.instance.id"
HOST_NAME = "host.name"

# HTTP
HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
HTTP_RESEND_COUNT = "http.request.resend_count"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

# Generative AI. Only on the span of the inference: backends count every span that has them as a generation.
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
CONVERSATION_ID = "gen_ai.conversation.id"
PROMPT_NAME = "gen_ai.prompt.name"
PROMPT_VERSION = "gen_ai.prompt.version"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"

# Our own
INFERENCE_ID = "narthex.inference.id"
REQUEST_ID = "narthex.request.id"
TEAM = "narthex.team"
TEAM_ID = "narthex.team.id"
KEY_ID = "narthex.key.id"
ROUTE = "narthex.route"
OUTCOME = "narthex.outcome"
SNAPSHOT = "narthex.snapshot"
COST_USD = "narthex.cost.usd"
CHARGE_BASIS = "narthex.charge.basis"
SERVED_PROVIDER = "narthex.served.provider"
SERVED_MODEL = "narthex.served.model"
ATTEMPT_PROVIDER = "narthex.attempt.provider"
ATTEMPT_MODEL = "narthex.attempt.model"
ATTEMPT_SERVED = "narthex.attempt.served"
ATTEMPT_REQUEST_ID = "narthex.attempt.request.id"

# Metrics
DURATION = "gen_ai.client.operation.duration"
FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_USAGE = "gen_ai.client.token.usage"
COST = "narthex.cost"
ATTEMPT_FAILURES = "narthex.attempt.failures"
OVERFLOW = "otel.metric.overflow"  # of the series that stands for all beyond the limit: OpenTelemetry's metrics SDK, cardinality limits

DURATION_BOUNDS_S = tuple(0.01 * 2**power for power in range(14))
TOKEN_BOUNDS = tuple(float(4**power) for power in range(14))

# gen_ai.operation.name by the record's route; any other route is its own operation.
OPERATIONS: Mapping[str, str] = {
    "openai_chat": "chat",
    "openai_responses": "chat",
    "anthropic_messages": "chat",
    "tensorzero_inference": "chat",
    "gemini": "generate_content",
    "openai_completions": "text_completion",
    "vllm_generate": "text_completion",
    "generate": "text_completion",
    "openai_embeddings": "embeddings",
}

# gen_ai.provider.name by our adapter's name; any other is its own.
PROVIDERS: Mapping[str, str] = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "sagemaker": "aws.sagemaker",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
