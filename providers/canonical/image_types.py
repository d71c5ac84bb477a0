"""The media type of an image by its first bytes: labels that clients write are often wrong, and hosts check them.

Claude answers 400 for image/jpg and for a JPEG that is labelled image/png, Gemini and Bedrock for image/jpg. Sources:
NousResearch/hermes-agent#55432, mealie-recipes/mealie#5897, BerriAI/litellm#24900, read 2026-11.
"""

# The beginning of each kind of image in base64: as much of it as the first bytes alone determine.
_PNG, _JPEG, _GIF87, _GIF89 = "iVBORw0KGg", "/9j/", "R0lGODdh", "R0lGODlh"
# RIFF, four bytes of length, WEBP: base64 packs three bytes into four characters, so that the length spoils two of them.
_RIFF, _WEBP = "UklGR", "XRUJQ"
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def image_type(label: str, data: str) -> str:
    """The media type of an image. `label` is what it is said to be; `data` is its base64, of which the beginning is looked at."""
    if not label.startswith("image/"):
        return label
    if data.startswith(_PNG):
        return "image/png"
    if data.startswith(_JPEG):
        return "image/jpeg"
    if data.startswith((_GIF87, _GIF89)):
        return "image/gif"
    if data.startswith(_RIFF) and data[11:16] == _WEBP:
        return "image/webp"
    return _ALIASES.get(label, label)


def relabel_data_url(url: str) -> str | None:
    """The data URL of an image with its true media type; None: it has that already, or is something else."""
    if url[:11].lower() != "data:image/":
        return None
    comma = url.find(",", 0, 256)
    head = url[5:comma].lower()
    if comma < 0 or not head.endswith(";base64"):
        return None
    label, _, parameters = head.partition(";")
    true_type = image_type(label, url[comma + 1 : comma + 33])
    return None if true_type == url[5 : 5 + len(label)] else f"data:{true_type};{parameters}{url[comma:]}"
