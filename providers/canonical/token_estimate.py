"""Estimates of tokens before anybody has counted them: for what limits reserve, which is settled to the exact usage afterwards.

Text is a third of its bytes, which is more than tokenizers make of European languages and about what they make of Chinese. Media counts
by a table, never by the length of its base64: an image of 5 MB is as many tokens as one of 50 kB.
"""

# Of one image: OpenAI's high detail takes 765 to 1,105 (https://platform.openai.com/docs/guides/images-vision), Anthropic at most about
# 1,600 (https://docs.anthropic.com/en/docs/build-with-claude/vision), both read 2026-11.
IMAGE_TOKENS = 1_600
# Of one file: a document of some pages, at 1,500 to 3,000 tokens each
# (https://docs.anthropic.com/en/docs/build-with-claude/pdf-support, read 2026-11).
FILE_TOKENS = 10_000
# Of one recording: five minutes, at 10 tokens a second (https://platform.openai.com/docs/guides/audio, read 2026-11).
AUDIO_TOKENS = 3_000


def text_tokens(size_bytes: int) -> int:
    return (size_bytes + 2) // 3
