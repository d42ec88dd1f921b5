"""An engine that always writes the same, and goes on with it exactly.

``Writer`` is the model: given what there is of its answer it returns the events of the
rest. ``ContinuingServer`` plays it over HTTP, for the tests of the household.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import json
from typing import Any

from aiohttp import web

from tests.fake_replies import DONE, Answer, Answering, Piece, Reply, Thought, answer
from tests.fake_server import FakeServer

type Cut = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Writer:
    """Always writes ``reasoning``, in its own field, and then ``text``.

    ``cut`` divides what a run writes into pieces. If it ``knows_stops`` a run ends
    before one of ``stops`` and, as with real servers, holds back what may begin one,
    but looks for them only in what it wrote itself.
    """

    text: str
    cut: Cut
    reasoning: str = ""
    stops: tuple[str, ...] = ()
    knows_stops: bool = True

    def events(self, message: Mapping[str, Any] | None = None) -> list[bytes]:
        """Return the events of a run that goes on with ``message``, one each."""
        begun = message or {}
        content = str(begun.get("content", ""))
        thought = str(begun.get("reasoning_content", ""))
        assert self.text.startswith(content), (self.text, content)
        assert self.reasoning.startswith(thought)
        events = []
        if not content:
            rest = self.reasoning[len(thought) :]
            events += [
                self._event("reasoning_content", each) for each in self.cut(rest)
            ]
        rest = self.text[len(content) :]
        pieces = self._until_stop(rest) if self.knows_stops else self.cut(rest)
        events += [self._event("content", piece) for piece in pieces]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return [*events, _event(end), DONE.encode()]

    def _until_stop(self, rest: str) -> list[str]:
        """Return the pieces of the text up to a stop string."""
        written, shown = "", 0
        pieces: list[str] = []
        for piece in self.cut(rest):
            written += piece
            found = [at for stop in self.stops if (at := written.find(stop)) >= 0]
            held = max((_begun(written, stop) for stop in self.stops), default=0)
            end = min(found, default=len(written) - held)
            pieces.append(written[shown:end])
            shown = max(end, shown)
            if found:
                return pieces
        return [*pieces, written[shown:]]

    def _event(self, name: str, piece: str) -> bytes:
        delta = {name: piece}
        return _event(
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        )


class ContinuingServer(FakeServer):
    """A llama.cpp server (or vLLM) that goes on with answers.

    ``pieces`` is what it always answers. What is not text among them (events that hold
    an answer, faults) works as in ``answer``, each once and one in each run.
    """

    def __init__(
        self,
        kind: str = "llama_cpp",
        *,
        pieces: Sequence[Piece] = ("Hello", " there"),
        knows_reasoning: bool = True,
        continues: bool = True,
        trims: bool = False,
        **options: Any,
    ) -> None:
        """``continues``: knows the option; else only the raw template is left."""
        super().__init__(kind, **options)
        self.pieces = list(pieces)
        self.knows_reasoning = knows_reasoning
        self.continues = continues
        self.trims = trims
        self.default: Reply | Answering = self._rest
        self._vocabulary: list[str] = []

    def _rest(self, body: Mapping[str, Any]) -> Reply:
        last = (body.get("messages") or [{}])[-1]
        if body.get("continue_final_message"):
            return self._after(
                str(last.get("content", "")), str(last.get("reasoning_content", ""))
            )
        return self._after("", "")

    def _after(self, content: str, thought: str) -> Reply:
        """Return what follows, with the next thing that is to happen in between."""
        if content:
            thought = "".join(p.text for p in self.pieces if isinstance(p, Thought))
        rest: list[Piece] = []
        happens = False
        for piece in [*self.pieces]:
            match piece:
                case Thought():
                    left, thought = _without(piece.text, thought)
                    rest += [Thought(left)] if left else []
                case str():
                    left, content = _without(piece, content)
                    rest += [left] if left else []
                case _ if not happens:
                    happens = True
                    rest.append(piece)
                    self.pieces.remove(piece)
        assert not content + thought, "not what this server wrote"
        return answer(*rest)

    def _routes(self) -> list[web.RouteDef]:
        return [
            *super()._routes(),
            web.post("/v1/completions", self._complete),
            web.post("/detokenize", self._detokenize),
        ]

    async def _apply_template(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("continue_final_message") and not self.continues:
            return web.json_response(
                {"error": {"message": "no", "code": 400}}, status=400
            )
        return web.json_response({"prompt": self._prompt(body)})

    async def _vllm_tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("continue_final_message") and not self.continues:
            return web.json_response(
                {"error": {"message": "no", "code": 400}}, status=400
            )
        self._vocabulary.append(self._prompt(body))
        count = self.count_prompt(body)
        tokens = [len(self._vocabulary) - 1] * count
        return web.json_response({"count": count, "tokens": tokens})

    async def _detokenize(self, request: web.Request) -> web.Response:
        tokens = (await request.json())["tokens"]
        return web.json_response({"prompt": self._vocabulary[tokens[0]]})

    def _prompt(self, body: Mapping[str, Any]) -> str:
        messages = list(body["messages"])
        end = "<assistant>"
        if body.get("continue_final_message"):
            last = messages.pop()
            thought = last.get("reasoning_content") if self.knows_reasoning else None
            end += f"<think>{thought}" if thought else ""
            content = str(last.get("content", ""))
            content = content.strip() if self.trims else content
            end += f"</think>{content}" if thought and content else content
        return json.dumps(messages) + end

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        reply = self._after(body["prompt"].partition("<assistant>")[2], "")
        response = await self._open(request, "text/event-stream")
        for piece in reply.pieces if isinstance(reply, Answer) else ():
            choice = {"index": 0, "text": piece, "finish_reason": None}
            await response.write(_event({"choices": [choice]}))
        await response.write(DONE.encode())
        return response


def _without(piece: str, begun: str) -> tuple[str, str]:
    """Return what is left of a piece of which ``begun`` may be there, and of that."""
    there = min(len(piece), len(begun))
    assert piece[:there] == begun[:there], "not what this server wrote"
    return piece[there:], begun[there:]


def _begun(text: str, stop: str) -> int:
    return max(
        (n for n in range(len(stop)) if n and text.endswith(stop[:n])), default=0
    )


def _event(payload: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(payload)}\n\n".encode()
