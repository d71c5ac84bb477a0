"""Credentials for AWS and Google Cloud, which LiteLLM spreads over several parameters."""

from app.imports.credentials import CredentialReferences
from app.imports.litellm.environment import Environment, variable_of
from app.imports.litellm.parameters import Parameters

_AWS_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_AWS_ROLE = ("aws_role_name", "aws_session_name", "aws_web_identity_token", "aws_sts_endpoint", "aws_external_id", "aws_session_tags")
_ROLE_ADVICE = (
    "A role is not assumed by the configuration: give a profile of the machine's AWS configuration a `role_arn`, and name it in the"
    ' provider\'s credential, "aws:profile:NAME".'
)


def read_aws_credential(parameters: Parameters, references: CredentialReferences, provider: str) -> str | None:
    """A key of Bedrock's own, a profile, keys, or the machine's credential chain."""
    for key in _AWS_ROLE:
        parameters.table_with(key).leave_out(key, _ROLE_ADVICE)
    if "api_key" in parameters:
        return read_key(parameters, references, provider)
    profile = parameters.table_with("aws_profile_name").text("aws_profile_name")
    keys = {key: value for key in _AWS_KEYS if (value := parameters.table_with(key).text(key)) is not None}
    if profile is not None and variable_of(profile) is not None:
        path = parameters.table_with("aws_profile_name").path_of("aws_profile_name")
        parameters.report.to_do(path, "The profile is a variable: set AWS_PROFILE in the gateway's environment.")
    elif profile is not None:
        return f"aws:profile:{profile}"
    if all(variable_of(value) == key.upper() for key, value in keys.items()):
        return "aws:default"  # which reads AWS_ACCESS_KEY_ID and so on
    path = parameters.table_with(_AWS_KEYS[0]).path_of(_AWS_KEYS[0])
    return references.unreadable(path, provider, 'a JSON object, {"access_key_id": "...", "secret_access_key": "..."}')


def read_google_credential(parameters: Parameters, references: CredentialReferences, provider: str) -> str | None:
    """A service account's JSON or its file, or the machine's credential chain."""
    key = parameters.first_of("vertex_credentials", "vertex_ai_credentials")
    if key is None:
        return "google:default"
    table = parameters.table_with(key)
    value, path = table.read(key), table.path_of(key)
    form = "the JSON of the service account"
    if not isinstance(value, str) or value.lstrip().startswith("{"):
        return references.literal(str(value), path, provider, form)
    name = variable_of(value)
    if name is not None:
        parameters.report.to_do(path, f"The variable must hold {form} itself; for a path to it, use `file:PATH`.")
        return references.variable(name, path, provider)
    return references.file(value, path, provider)


def read_key(parameters: Parameters, references: CredentialReferences, provider: str, key: str = "api_key") -> str | None:
    """A plain key: a variable, or the secret itself."""
    table = parameters.table_with(key)
    value = table.text(key)
    if value is None:
        return None
    name = variable_of(value)
    path = table.path_of(key)
    return references.literal(value, path, provider) if name is None else references.variable(name, path, provider)


def read_google_options(parameters: Parameters, environment: Environment) -> dict[str, str]:
    """Returns `project` and `location`; LiteLLM's default location is us-central1."""
    options: dict[str, str] = {}
    for option, keys, variables in (
        ("project", ("vertex_project", "vertex_ai_project"), ("VERTEXAI_PROJECT", "VERTEX_PROJECT")),
        ("location", ("vertex_location", "vertex_ai_location"), ("VERTEXAI_LOCATION", "VERTEX_LOCATION")),
    ):
        key = parameters.first_of(*keys)
        value = environment.first_of(*variables) if key is None else environment.resolve(parameters.table_with(key), key)
        if value is not None:
            options[option] = value
    return {"location": "us-central1", **options}
