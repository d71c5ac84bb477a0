"""Cases of requests: images, documents and audio."""

from tests.conformance.request_case import DropReported, Refused, RequestCase, Translated, anthropic, chat, responses, user
from tests.conformance.request_samples import (
    IMAGE_URL,
    PDF,
    PDF_URL,
    PNG,
    WAV,
    anthropic_data,
    anthropic_url,
    image,
    input_text,
    text,
    translated_everywhere,
)
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

AUDIO_PART = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}

MEDIA = (
    translated_everywhere(
        "media",
        "image by URL",
        {
            CHAT: chat(user([text("What?"), image(IMAGE_URL)])),
            RESPONSES: responses(user([input_text("What?"), {"type": "input_image", "image_url": IMAGE_URL, "detail": "auto"}])),
            ANTHROPIC: anthropic(user([text("What?"), anthropic_url("image", IMAGE_URL)])),
        },
    ),
    translated_everywhere(
        "media",
        "image as data",
        {
            CHAT: chat(user([image(f"data:image/png;base64,{PNG}")])),
            RESPONSES: responses(user([{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}])),
            ANTHROPIC: anthropic(user([anthropic_data("image", "image/png", PNG)])),
        },
    ),
    RequestCase(
        "media",
        "image detail",
        {
            CHAT: chat(user([{"type": "image_url", "image_url": {"url": IMAGE_URL, "detail": "low"}}])),
            RESPONSES: responses(user([{"type": "input_image", "image_url": IMAGE_URL, "detail": "low"}])),
        },
        {
            CHAT: Translated(chat(user([{"type": "image_url", "image_url": {"url": IMAGE_URL, "detail": "low"}}]))),
            RESPONSES: Translated(responses(user([{"type": "input_image", "image_url": IMAGE_URL, "detail": "low"}]))),
            f"{CHAT}>{ANTHROPIC}": DropReported(
                ("messages[0].content[0].image_url.detail",), anthropic(user([anthropic_url("image", IMAGE_URL)]))
            ),
            f"{RESPONSES}>{ANTHROPIC}": DropReported(("input[0].content[0].detail",), anthropic(user([anthropic_url("image", IMAGE_URL)]))),
        },
    ),
    RequestCase(
        "media",
        "PDF by URL",
        {
            RESPONSES: responses(user([input_text("Sum up."), {"type": "input_file", "file_url": PDF_URL}])),
            ANTHROPIC: anthropic(user([text("Sum up."), anthropic_url("document", PDF_URL)])),
        },
        {
            CHAT: Translated(
                chat(user([text("Sum up."), {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}}])),
                "fetched by the gateway and sent as data",
            ),
            RESPONSES: Translated(responses(user([input_text("Sum up."), {"type": "input_file", "file_url": PDF_URL}]))),
            ANTHROPIC: Translated(anthropic(user([text("Sum up."), anthropic_url("document", PDF_URL)]))),
        },
    ),
    translated_everywhere(
        "media",
        "PDF as data",
        {
            CHAT: chat(user([{"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}])),
            RESPONSES: responses(user([{"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}])),
            ANTHROPIC: anthropic(user([{**anthropic_data("document", "application/pdf", PDF), "title": "a.pdf"}])),
        },
    ),
    RequestCase(
        "media",
        "file stored at the host",
        {
            CHAT: chat(user([{"type": "file", "file": {"file_id": "file-1"}}])),
            RESPONSES: responses(user([{"type": "input_file", "file_id": "file-1"}])),
            ANTHROPIC: anthropic(user([{"type": "document", "source": {"type": "file", "file_id": "file_1"}}])),
        },
        {
            f"{CHAT}>{RESPONSES}": Translated(responses(user([{"type": "input_file", "file_id": "file-1"}]))),
            f"{CHAT}>{ANTHROPIC}": Refused("messages[0].content[0]"),
            f"{RESPONSES}>{CHAT}": Translated(chat(user([{"type": "file", "file": {"file_id": "file-1"}}]))),
            f"{RESPONSES}>{ANTHROPIC}": Refused("input[0].content[0]"),
            f"{ANTHROPIC}>{CHAT}": Refused("messages[0].content[0]"),
            f"{ANTHROPIC}>{RESPONSES}": Refused("messages[0].content[0]"),
        },
    ),
    RequestCase(
        "media",
        "audio",
        {CHAT: chat(user([AUDIO_PART])), RESPONSES: responses(user([AUDIO_PART]))},
        {
            CHAT: Translated(chat(user([AUDIO_PART]))),
            RESPONSES: Translated(responses(user([AUDIO_PART]))),
            f"{CHAT}>{ANTHROPIC}": Refused("messages[0].content[0]"),
            f"{RESPONSES}>{ANTHROPIC}": Refused("input[0].content[0]"),
        },
    ),
)
