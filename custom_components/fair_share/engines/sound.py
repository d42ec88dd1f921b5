"""How many tokens a recording is for a model that hears."""

from base64 import b64decode
import binascii
from math import ceil

_WINDOW_S = 30
_TOKENS_PER_WINDOW = 750
_ENCODED = "base64,"
_BYTES_PER_S = 8_000
"""Of compressed speech, 64 kbit/s: what MP3 has with one voice. What is compressed less
is taken to be longer than it is."""

_MOST_BYTES_PER_S = 192_000
"""Of a WAV file: 48 kHz, two channels, 16 bit. What claims to have more is not
believed."""

_HEAD = 44
_RATE_AT = slice(28, 32)


def sound_tokens(data: str) -> int:
    """Return about how many tokens this sound in base64 is; rather too many.

    Models that hear mostly do so by Whisper's encoder, which listens to windows of 30 s
    and makes 1,500 frames of each (Radford et al. 2022); Qwen2-Audio joins two to a
    token of 40 ms (Chu et al. 2024), others more. Servers fill the last window up.
    """
    start = data.find(_ENCODED, 0, 100)
    begin = 0 if start < 0 else start + len(_ENCODED)
    size = (len(data) - begin) * 3 // 4
    seconds = size / _bytes_per_s(data[begin : begin + ceil(_HEAD / 3) * 4])
    return max(1, ceil(seconds / _WINDOW_S)) * _TOKENS_PER_WINDOW


def _bytes_per_s(encoded: str) -> int:
    """Return how much a second of a file that begins like this takes."""
    try:
        head = b64decode(encoded)
    except binascii.Error, ValueError:
        return _BYTES_PER_S
    if head[:4] != b"RIFF" or head[8:16] != b"WAVEfmt " or len(head) < _HEAD:
        return _BYTES_PER_S
    told = int.from_bytes(head[_RATE_AT], "little")
    return min(max(told, _BYTES_PER_S), _MOST_BYTES_PER_S)
