"""The error of an operation that found a value which is no bucket."""

from app.store.redis.replies import RedisReplyError

BROKEN = "BROKEN"


class BrokenBucket(RedisReplyError):
    """An operation found a value that is no bucket. It changed nothing that others see, and they do not notice."""


def read_error(message: str) -> RedisReplyError:
    return BrokenBucket(message) if message.startswith(BROKEN) else RedisReplyError(message)
