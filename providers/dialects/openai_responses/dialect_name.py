"""The dialect's name, which is also the origin of opaque parts and signatures that only it can read."""

DIALECT = "openai_responses"
