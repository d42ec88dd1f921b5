"""The address of a server, as people type it."""

from ipaddress import AddressValueError, IPv6Address
import re
from urllib.parse import SplitResult, urlsplit

from .base import InvalidAddressError

_USUAL_PORTS = (8080, 8000)
"""Where llama.cpp's server and vLLM listen unless told otherwise."""

_SPACE_AT_SEPARATORS = re.compile(r"\s*([:/])\s*")


def normalise_address(text: str) -> str:
    """Return ``scheme://host[:port][/prefix]`` without ``/v1`` and what follows it.

    Without a scheme it is plain HTTP. Raises ``InvalidAddressError``.
    """
    parts = _split(text)
    path = parts.path.rstrip("/")
    segments = path.split("/")
    if "v1" in segments:
        path = "/".join(segments[: segments.index("v1")])
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{path}"


def candidate_addresses(text: str) -> list[str]:
    """Return where the server may be, most likely first.

    Where no port was typed, the usual ones are among them.
    Raises ``InvalidAddressError``.
    """
    typed = normalise_address(text)
    parts = urlsplit(typed)
    if parts.port is not None or parts.scheme == "https":
        return [typed]
    usual = [
        parts._replace(netloc=f"{parts.netloc}:{port}").geturl()
        for port in _USUAL_PORTS
    ]
    return [typed, *usual] if "://" in text else [*usual, typed]


def _split(text: str) -> SplitResult:
    text = _SPACE_AT_SEPARATORS.sub(r"\1", text.strip())
    if len(text.split()) != 1:
        raise InvalidAddressError("no text, or several words")
    if "://" not in text:
        text = f"http://{_bracketed(text)}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise InvalidAddressError("not an address") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise InvalidAddressError("not an HTTP address")
    if parts.username is not None:
        raise InvalidAddressError("an address with a user name or key in it")
    return parts


def _bracketed(text: str) -> str:
    """Return a bare IPv6 address in brackets, anything else as it is."""
    try:
        return f"[{IPv6Address(text)}]"
    except AddressValueError:
        return text
