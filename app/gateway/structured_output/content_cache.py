"""What was found of contents, by the contents themselves: bounded in number and in bytes, the longest unused given up first."""

from typing import Generic, TypeVar

T = TypeVar("T")

# To hash 100 kB takes longer than the whole look-up may; to compare them does not.
_SAMPLED_FROM_BYTES = 8_192
_SAMPLES = 64
_MAX_BUCKET_ENTRIES = 8


class ContentCache(Generic[T]):
    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._buckets: dict[bytes, list[tuple[bytes, T]]] = {}
        self._count = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return self._count

    def get(self, content: bytes) -> T | None:
        """None: not known."""
        sample = _sample(content)
        bucket = self._buckets.pop(sample, None)
        if bucket is None:
            return None
        self._buckets[sample] = bucket  # at the end: used last
        for cached_content, value in bucket:
            if cached_content == content:
                return value
        return None

    def put(self, content: bytes, value: T) -> None:
        if len(content) > self._max_bytes:
            return
        sample = _sample(content)
        bucket = self._buckets.pop(sample, [])
        if len(bucket) >= _MAX_BUCKET_ENTRIES:
            self._evict_oldest(bucket)
        bucket.append((content, value))
        self._buckets[sample] = bucket
        self._count += 1
        self.size_bytes += len(content)
        while self._count > self._max_entries or self.size_bytes > self._max_bytes:
            oldest_sample = next(iter(self._buckets))
            self._evict_oldest(self._buckets[oldest_sample])
            if not self._buckets[oldest_sample]:
                del self._buckets[oldest_sample]

    def _evict_oldest(self, bucket: list[tuple[bytes, T]]) -> None:
        content, _ = bucket.pop(0)
        self._count -= 1
        self.size_bytes -= len(content)


def _sample(content: bytes) -> bytes:
    """What finds a content among others: all of a short one, of a long one its length, its ends and some bytes in between."""
    size = len(content)
    if size < _SAMPLED_FROM_BYTES:
        return content
    return b"%d:%b%b%b" % (size, content[:256], content[:: size // _SAMPLES], content[-256:])
