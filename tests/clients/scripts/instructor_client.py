"""instructor, around the SDK of the API that SURFACE names."""

# pyright: basic, reportMissingImports=false
from collections.abc import Iterable

import anthropic
import instructor
import openai
from report import API_KEY, BASE_URL, MODEL, PICTURE, SCENARIO, SURFACE, Person, provoked_errors, report

MODES = [
    instructor.Mode[name]
    for name in {
        "openai_chat": ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "JSON", "JSON_O1", "MD_JSON", "FUNCTIONS", "PARALLEL_TOOLS"),
        "openai_responses": ("RESPONSES_TOOLS",),
        "anthropic": ("ANTHROPIC_TOOLS", "ANTHROPIC_JSON", "ANTHROPIC_REASONING_TOOLS", "ANTHROPIC_PARALLEL_TOOLS"),
    }[SURFACE]
]


def client(mode=MODES[0], key=API_KEY):
    if SURFACE == "anthropic":
        return instructor.from_anthropic(anthropic.Anthropic(base_url=BASE_URL, api_key=key, max_retries=0), mode=mode)
    return instructor.from_openai(openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=key, max_retries=0), mode=mode)


def create(make_client=client, content: object = SCENARIO["person"], model=MODEL, key=API_KEY, mode=MODES[0], **more):
    limit = {"max_tokens": 4000} if SURFACE == "anthropic" else {}
    messages = [{"role": "user", "content": content}]
    parallel = mode.name.endswith("PARALLEL_TOOLS")
    found = make_client(mode, key).chat.completions.create(
        model=model, messages=messages, response_model=Iterable[Person] if parallel else Person, max_retries=0, **limit, **more
    )
    return next(iter(found)) if parallel else found


def streamed_person():
    limit = {"max_tokens": 4000} if SURFACE == "anthropic" else {}
    messages = [{"role": "user", "content": SCENARIO["person"]}]
    *_, last = client().chat.completions.create_partial(model=MODEL, messages=messages, response_model=Person, **limit)
    return last.model_dump()


def sdk_error_of(**fields):
    try:
        return create(**fields)
    except Exception as error:
        # The client wraps the SDK's own error, which has the status.
        while error.__cause__ is not None and not hasattr(error, "status_code"):
            error = error.__cause__
        raise error from None


report(
    {
        "structured": lambda: create().model_dump(),
        **{f"structured_by_{mode.name.lower()}": lambda mode=mode: create(mode=mode).model_dump() for mode in MODES[1:]},
        "structured_streamed": streamed_person,
        "image": lambda: create(content=[SCENARIO["picture"], instructor.Image.from_base64(PICTURE)]).model_dump(),
        "errors": lambda: provoked_errors(sdk_error_of, **({"metadata": "none"} if SURFACE == "anthropic" else {"temperature": "hot"})),
    }
)
