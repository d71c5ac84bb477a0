"""The dialect's name, which is also the origin of the requests that it reads."""

DIALECT = "openai_completions"
