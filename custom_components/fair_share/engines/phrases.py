"""What may be repeated of a server's own words about an error.

A server's message may hold the prompt, the answer or the key, whole or in part, and no
comparison finds all of that. So nothing of it is repeated but phrases that are known
here, word by word. Numbers are let through only in a phrase that begins the message:
what a message quotes comes later.
"""

import re

_LONGEST_MESSAGE = 2000
_ANYWHERE = re.compile(
    "|".join(
        re.escape(phrase)
        for phrase in (
            # llama.cpp
            "audio input is not supported",
            "compute error",
            "context size has been exceeded",
            "exceeds the available context size",
            "failed to parse grammar",
            "failed to parse input",
            "failed to parse messages",
            "failed to parse tools",
            "file not found",
            "image input is not supported",
            "invalid input batch",
            "jinja exception",
            "loading model",
            "requires --jinja",
            # vLLM and others
            "chat template",
            "context_length_exceeded",
            "cuda error",
            "enginecore encountered an issue",
            "invalid api key",
            "longer than the maximum model length",
            "maximum context length",
            "not a multimodal model",
            "not found",
            "out of memory",
            "requires --enable-auto-tool-choice",
            "response_format",
            "service unavailable",
            "stream_options",
            "tool choice",
            "unauthorized",
        )
    ),
    re.IGNORECASE,
)
_AT_THE_START = re.compile(
    r"""
      request\ \(\d{1,9}\ tokens\)\ exceeds\ the\ available\ context\ size\ \(\d{1,9}
    | this\ model's\ maximum\ context\ length\ is\ \d{1,9}\ tokens
    | 'max_tokens'\ or\ 'max_completion_tokens'\ is\ too\ large:\ \d{1,9}
    | at\ most\ \d{1,9}\ (?:image|audio)\(s\)
    | failed\ to\ parse\ input\ at\ pos\ \d{1,9}
    """,
    re.IGNORECASE | re.VERBOSE,
)


def known_phrase(message: str) -> str:
    """Return the part of a message that is known to be nobody's, else nothing."""
    message = " ".join(message[:_LONGEST_MESSAGE].split())
    found = _AT_THE_START.match(message) or _ANYWHERE.search(message)
    return found.group() if found else ""
