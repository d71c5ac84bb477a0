"""The slots of a cluster: which of its 16,384 slots a key is in. Keys with the same {tag} are in the same slot."""

from binascii import crc_hqx

SLOT_COUNT = 16384


def key_slot(key: bytes) -> int:
    """CRC16 (XMODEM) of the key, or of what stands between its first { and the next }, unless that is empty.

    Source: https://valkey.io/topics/cluster-spec/, read 2026-11.
    """
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin + 1)
        if end > begin + 1:
            key = key[begin + 1 : end]
    return crc_hqx(key, 0) % SLOT_COUNT
