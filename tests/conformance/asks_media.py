"""Requests: images, documents and audio."""

from tests.conformance.asking import Asking, Carried, Refused, Reported, anthropic, chat, responses, user
from tests.conformance.asks_words import (
    PAPER,
    PDF,
    PICTURE,
    PNG,
    WAV,
    anthropic_data,
    anthropic_url,
    everywhere,
    image,
    input_text,
    text,
)
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

SPOKEN = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}

MEDIA = (
    everywhere(
        "media",
        "image by address",
        {
            CHAT: chat(user([text("What?"), image(PICTURE)])),
            RESPONSES: responses(user([input_text("What?"), {"type": "input_image", "image_url": PICTURE, "detail": "auto"}])),
            ANTHROPIC: anthropic(user([text("What?"), anthropic_url("image", PICTURE)])),
        },
    ),
    everywhere(
        "media",
        "image as data",
        {
            CHAT: chat(user([image(f"data:image/png;base64,{PNG}")])),
            RESPONSES: responses(user([{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}])),
            ANTHROPIC: anthropic(user([anthropic_data("image", "image/png", PNG)])),
        },
    ),
    Asking(
        "media",
        "image's detail",
        {
            CHAT: chat(user([{"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}])),
            RESPONSES: responses(user([{"type": "input_image", "image_url": PICTURE, "detail": "low"}])),
        },
        {
            CHAT: Carried(chat(user([{"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}]))),
            RESPONSES: Carried(responses(user([{"type": "input_image", "image_url": PICTURE, "detail": "low"}]))),
            f"{CHAT}>{ANTHROPIC}": Reported(
                ("messages[0].content[0].image_url.detail",), anthropic(user([anthropic_url("image", PICTURE)]))
            ),
            f"{RESPONSES}>{ANTHROPIC}": Reported(("input[0].content[0].detail",), anthropic(user([anthropic_url("image", PICTURE)]))),
        },
    ),
    Asking(
        "media",
        "PDF by address",
        {
            RESPONSES: responses(user([input_text("Sum up."), {"type": "input_file", "file_url": PAPER}])),
            ANTHROPIC: anthropic(user([text("Sum up."), anthropic_url("document", PAPER)])),
        },
        {
            CHAT: Carried(
                chat(user([text("Sum up."), {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}}])),
                "fetched by the gateway and sent as data",
            ),
            RESPONSES: Carried(responses(user([input_text("Sum up."), {"type": "input_file", "file_url": PAPER}]))),
            ANTHROPIC: Carried(anthropic(user([text("Sum up."), anthropic_url("document", PAPER)]))),
        },
    ),
    everywhere(
        "media",
        "PDF as data",
        {
            CHAT: chat(user([{"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}])),
            RESPONSES: responses(user([{"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}])),
            ANTHROPIC: anthropic(user([{**anthropic_data("document", "application/pdf", PDF), "title": "a.pdf"}])),
        },
    ),
    Asking(
        "media",
        "file that the host keeps",
        {
            CHAT: chat(user([{"type": "file", "file": {"file_id": "file-1"}}])),
            RESPONSES: responses(user([{"type": "input_file", "file_id": "file-1"}])),
            ANTHROPIC: anthropic(user([{"type": "document", "source": {"type": "file", "file_id": "file_1"}}])),
        },
        {
            f"{CHAT}>{RESPONSES}": Carried(responses(user([{"type": "input_file", "file_id": "file-1"}]))),
            f"{CHAT}>{ANTHROPIC}": Refused("messages[0].content[0]"),
            f"{RESPONSES}>{CHAT}": Carried(chat(user([{"type": "file", "file": {"file_id": "file-1"}}]))),
            f"{RESPONSES}>{ANTHROPIC}": Refused("input[0].content[0]"),
            f"{ANTHROPIC}>{CHAT}": Refused("messages[0].content[0]"),
            f"{ANTHROPIC}>{RESPONSES}": Refused("messages[0].content[0]"),
        },
    ),
    Asking(
        "media",
        "audio",
        {CHAT: chat(user([SPOKEN])), RESPONSES: responses(user([SPOKEN]))},
        {
            CHAT: Carried(chat(user([SPOKEN]))),
            RESPONSES: Carried(responses(user([SPOKEN]))),
            f"{CHAT}>{ANTHROPIC}": Refused("messages[0].content[0]"),
            f"{RESPONSES}>{ANTHROPIC}": Refused("input[0].content[0]"),
        },
    ),
)
