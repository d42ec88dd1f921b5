"""Prompts of just so many tokens, for a server's own tokenizer.

They are made of words that tokenizers have as one token each; what a chat template adds
is counted by the server and taken off. So a prompt differs from all others from its
first word on, and its length is exact where those words are single tokens.
"""

from collections.abc import Mapping, Sequence
from random import Random

from custom_components.fair_share.engines.base import (
    Engine,
    EngineKind,
    GenerationRequest,
)

_TEXT = """
    time year people way day man thing woman life child world school state family
    student group country problem hand part place case week company system program
    question work government number night point home water room mother area money
    story fact month lot right study book eye job word business issue side kind head
    house service friend father power hour game line end member law car city name
    president team minute idea body information back parent face others level office
    door health person art war history party result change morning reason research
    girl moment air teacher force education river garden window table music light
    summer winter bridge island market village forest mountain kitchen letter picture
"""
_WORDS = _TEXT.split()

_SYSTEM = {"role": "system", "content": " ".join(_WORDS)}
_USER = {"role": "user", "content": " ".join(_WORDS)}

type Messages = Sequence[Mapping[str, str]]


class Prompts:
    """Makes requests; every draw is another one, and the same again for a seed."""

    def __init__(
        self, seed: int, kind: EngineKind, *, overhead: int, per_message: int
    ) -> None:
        """Take what a server's chat template adds, in tokens.

        ``overhead`` comes once, with the first message, ``per_message`` with each
        further one.
        """
        self._random = Random(seed)
        self.overhead = overhead
        self.per_message = per_message
        # What llama.cpp and vLLM take makes the length of an answer exact.
        exact = {} if kind is EngineKind.OPENAI_COMPATIBLE else {"ignore_eos": True}
        self._parameters = {"temperature": 0, **exact}

    @classmethod
    async def for_engine(cls, engine: Engine, seed: int) -> Prompts:
        """Ask a server what its template adds."""
        one, two = [
            await engine.count_tokens(GenerationRequest(messages, max_output_tokens=1))
            for messages in ([_SYSTEM], [_SYSTEM, _USER])
        ]
        words = len(_WORDS)
        return cls(
            seed,
            engine.kind,
            overhead=max((one or words) - words, 0),
            per_message=max((two or 2 * words) - (one or words) - words, 0),
        )

    def words(self, count: int) -> str:
        """Return so many words that nobody has seen in this order."""
        return " ".join(self._random.choices(_WORDS, k=count))

    def fresh(self, prompt_tokens: int, output_tokens: int) -> GenerationRequest:
        """Return a request that no cache knows the beginning of."""
        text = self.words(prompt_tokens - self.overhead)
        # A template may put words of its own before anything but a system message.
        return self.request([{"role": "system", "content": text}], output_tokens)

    def request(self, messages: Messages, output_tokens: int) -> GenerationRequest:
        """Return a request for an answer of just so many tokens."""
        return GenerationRequest(messages, output_tokens, parameters=self._parameters)
