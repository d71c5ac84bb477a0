"""Token estimates: what limits reserve before a request; the reservation is settled to the exact usage afterwards.

Text counts a third of its bytes: more than tokenizers make of European languages, and about what they make of Chinese. Media has fixed
estimates, whatever its size: an image of 5 MB is as many tokens as one of 50 kB.
"""

# One image: OpenAI's high detail takes 765 to 1,105 (https://platform.openai.com/docs/guides/images-vision), Anthropic at most about
# 1,600 (https://docs.anthropic.com/en/docs/build-with-claude/vision), both read 2026-11.
IMAGE_TOKENS = 1_600
# One file: a document of some pages, at 1,500 to 3,000 tokens each
# (https://docs.anthropic.com/en/docs/build-with-claude/pdf-support, read 2026-11).
FILE_TOKENS = 10_000
# One recording: five minutes, at 10 tokens a second (https://platform.openai.com/docs/guides/audio, read 2026-11).
AUDIO_TOKENS = 3_000


def text_tokens(size_bytes: int) -> int:
    """The estimate for a text of this size in UTF-8."""
    return (size_bytes + 2) // 3
