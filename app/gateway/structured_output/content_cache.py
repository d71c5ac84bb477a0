"""A cache by content: bounded in entries and bytes, the least recently used evicted first."""

from typing import Generic, TypeVar

T = TypeVar("T")

# Hashing 100 kB takes longer than a look-up may; comparing them does not. So long contents are found by a sample of their bytes.
_SAMPLED_FROM_BYTES = 8_192
_SAMPLES = 64
_MAX_BUCKET_ENTRIES = 8


class ContentCache(Generic[T]):
    """get() and put() by content. len() is the number of entries; `size_bytes` counts their contents."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._buckets: dict[bytes, list[tuple[bytes, T]]] = {}
        self._count = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return self._count

    def get(self, content: bytes) -> T | None:
        """Returns the value that is cached for the content, or None if there is none."""
        sample = _sample(content)
        bucket = self._buckets.pop(sample, None)
        if bucket is None:
            return None
        self._buckets[sample] = bucket  # at the end: most recently used
        for cached_content, value in bucket:
            if cached_content == content:
                return value
        return None

    def put(self, content: bytes, value: T) -> None:
        """Evicts older entries as needed. A content larger than the cache is not kept."""
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
    """The key of a content's bucket: a short content itself; of a long one its length, its ends and some bytes in between."""
    size = len(content)
    if size < _SAMPLED_FROM_BYTES:
        return content
    return b"%d:%b%b%b" % (size, content[:256], content[:: size // _SAMPLES], content[-256:])
