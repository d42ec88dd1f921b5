"""Answers that are interrupted anywhere go on: nothing is lost, doubled or split."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from hypothesis import given, settings, strategies as st
import pytest

from custom_components.fair_share.engines import open_answer
from custom_components.fair_share.engines.answer_text import AnswerText
from custom_components.fair_share.engines.base import (
    Delta,
    Engine,
    EngineError,
    GenerationRequest,
    InterruptedAnswer,
    Resume,
    ResumeWay,
)
from custom_components.fair_share.engines.chat_stream import ChatStream
from custom_components.fair_share.engines.open_answer import OpenAnswer
from custom_components.fair_share.engines.resume import continued, goes_on
from tests.continuing_engine import ContinuingServer, Cut, Writer
from tests.engines.helpers import (
    TOOL,
    ask,
    ask_with,
    engine_for,
    error_of,
    finishes_of,
    first_content,
    text_of,
    thoughts_of,
)
from tests.fake_server import FakeServer, chunk

BOTH = Resume(ResumeWay.CONTINUE, reasoning=True)
QUESTION = {"messages": [{"role": "user", "content": "Tell me"}]}
STOPS = ("STOP", "\n\nUser:", "ende")

_WORDS = st.sampled_from(
    [
        "light",
        " house",
        " and",
        "\n\n",
        "\n",
        " ",
        "õhtu",
        " 한국",
        "🙂",
        "👩‍🚀",
        "<",
        " 1<2",
    ]
)
TEXTS = st.lists(_WORDS, min_size=1, max_size=12).map("".join).filter(str.strip)
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=6)


def pieces_of(sizes: Sequence[int]) -> Cut:
    """Return what cuts texts into pieces of these sizes, over and over.

    Sizes are in UTF-16 units: JSON may tear a character into two halves.
    """

    def cut(text: str) -> list[str]:
        units = text.encode("utf-16-le")
        pieces: list[str] = []
        at = 0
        while at < len(units):
            size = 2 * sizes[len(pieces) % len(sizes)]
            pieces.append(units[at : at + size].decode("utf-16-le", "surrogatepass"))
            at += size
        return pieces

    return cut


@dataclass
class Client:
    """Reads one answer through all its interruptions."""

    writer: Writer
    answer: OpenAnswer = field(default_factory=OpenAnswer)
    seen: list[Delta] = field(default_factory=list)
    runs: int = 0

    def __post_init__(self) -> None:
        self.answer.begin(AnswerText(stops=self.writer.stops))
        self.answer.resume = BOTH

    def run(self, events: int) -> bool:
        """Read so many events of the next run; return whether the answer is whole.

        Then the connection breaks, or the answer is left, if it can go on from there.
        """
        self.runs += 1
        message = None
        if self.answer.begun:
            message = continued(QUESTION, self.answer)["messages"][-1]
        chat = ChatStream(self.answer)
        for number, data in enumerate(self.writer.events(message)):
            if number >= events and not chat.finished and self.answer.can_go_on():
                self.answer.left()
                return False
            self.seen.extend(chat.feed(data))
        self.seen.extend(chat.close())
        return True


def read(writer: Writer, cuts: Sequence[int]) -> Client:
    """Return what a client sees of runs that end after so many events each."""
    client = Client(writer)
    for events in cuts:
        if client.run(events):
            return client
    assert client.run(10**6)
    return client


def expected(text: str, stops: Sequence[str] = ()) -> str:
    """Return the text up to the first stop string."""
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(found, default=len(text))]


@given(TEXTS, SIZES, st.lists(st.integers(0, 8), max_size=5))
@settings(max_examples=300, deadline=None)
def test_the_client_sees_the_text_as_if_it_were_never_interrupted(
    text: str, sizes: list[int], cuts: list[int]
) -> None:
    client = read(Writer(text, pieces_of(sizes)), cuts)
    assert text_of(client.seen) == text
    assert finishes_of(client.seen) == ["stop"]


@given(TEXTS, TEXTS, SIZES, st.lists(st.integers(0, 8), max_size=5))
@settings(max_examples=200, deadline=None)
def test_reasoning_goes_on_inside_and_after_it(
    reasoning: str, text: str, sizes: list[int], cuts: list[int]
) -> None:
    client = read(Writer(text, pieces_of(sizes), reasoning=reasoning), cuts)
    assert text_of(client.seen) == text
    assert thoughts_of(client.seen) == reasoning


@given(
    before=TEXTS,
    stop=st.sampled_from(STOPS),
    after=TEXTS,
    sizes=SIZES,
    cuts=st.lists(st.integers(0, 8), max_size=5),
    knows=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_a_stop_string_stops_although_it_was_cut_and_is_never_shown(
    before: str,
    stop: str,
    after: str,
    sizes: list[int],
    cuts: list[int],
    *,
    knows: bool,
) -> None:
    text = before + stop + after
    writer = Writer(text, pieces_of(sizes), stops=STOPS, knows_stops=knows)
    client = read(writer, cuts)
    assert text_of(client.seen) == expected(text, STOPS)
    assert finishes_of(client.seen) == ["stop"]


def test_a_stop_string_in_the_reasoning_stops_too() -> None:
    text = AnswerText(stops=STOPS)
    seen = [*text.add_thought("Well ST", 1), *text.add_thought("ill ST", 1)]
    assert thoughts_of(seen) == "Well STill "
    assert text.reasoned == "Well STill ST"
    assert thoughts_of(text.close(complete=True)) == "ST"
    assert not text.stopped
    text = AnswerText(stops=STOPS)
    assert thoughts_of(text.add_thought("Well STOP it", 1)) == "Well "
    assert text.stopped


def test_what_only_its_end_tells_to_be_reasoning_is_not_part_of_the_answer() -> None:
    answer = OpenAnswer()
    answer.resume = BOTH
    chat = ChatStream(answer)
    for piece in ("Hm. ", "So</think>"):
        list(chat.feed(chunk({"content": piece}).encode()))
    assert (answer.text.received, answer.text.thought) == ("", "Hm. So")
    assert not answer.can_go_on()
    list(chat.feed(chunk({"content": "\n\nYes."}).encode()))
    assert (answer.text.received, answer.can_go_on()) == ("Yes.", True)


@pytest.mark.parametrize("stop", STOPS)
def test_every_single_cut_of_a_text_with_everything_in_it(stop: str) -> None:
    text = f"A light house 🙂, 한국 <b>and so on{stop} not this"
    one_by_one = pieces_of([1])
    for events in range(len(text) + 4):
        writer = Writer(text, one_by_one, stops=(stop,), knows_stops=bool(events % 2))
        client = read(writer, [events, 1, 2])
        assert text_of(client.seen) == expected(text, [stop]), events


@given(TEXTS, TEXTS, SIZES, st.lists(st.integers(0, 12), max_size=4))
@settings(max_examples=200, deadline=None)
def test_a_block_of_reasoning_in_the_text_is_never_cut_and_never_shown(
    reasoning: str, text: str, sizes: list[int], cuts: list[int]
) -> None:
    thought = reasoning.replace("<", "")
    whole = f"<think>{thought}</think>\n\n{text}"

    class Raw(Writer):
        """Gives its reasoning in the text, and is given back only the text."""

        def events(self, message: object = None) -> list[bytes]:
            if not isinstance(message, dict):
                return Writer(whole, self.cut).events()
            return Writer(text.lstrip(), self.cut).events(message)

    client = read(Raw(whole, pieces_of(sizes)), cuts)
    assert text_of(client.seen) == text.lstrip()
    assert thoughts_of(client.seen) == thought


# ---- where to leave -----------------------------------------------------------------


async def left_after(
    pieces: Sequence[str], *, asked_after: int, resume: Resume | None = BOTH
) -> str | None:
    """Return what came when the reader was asked to leave after so many pieces.

    ``None`` if it never left.
    """
    answer = OpenAnswer()
    answer.resume = resume
    chat = ChatStream(answer)
    seen: list[Delta] = []
    try:
        for piece in pieces[:asked_after]:
            seen.extend(chat.feed(chunk({"content": piece}).encode()))
        answer.interrupt()
        for piece in pieces[asked_after:]:
            seen.extend(chat.feed(chunk({"content": piece}).encode()))
    except InterruptedAnswer:
        return text_of(seen)
    return None


@pytest.mark.parametrize(
    ("pieces", "asked_after", "text"),
    [
        pytest.param(
            ["A", " light", "house", " st"], 2, "A lighthouse", id="before a word"
        ),
        pytest.param(["One.", " Two"], 1, "One.", id="after a sentence"),
        pytest.param(["A", " light", "house", "\n"], 2, "A lighthouse", id="a line"),
        pytest.param(["A ", "light", "house "], 2, "A lighthouse ", id="after a word"),
        pytest.param(["A", " b"], 0, "", id="before anything came"),
        pytest.param(["", "<thi", "nk>hm", "</think>", "Yes."], 2, "Yes.", id="tags"),
        pytest.param([" ", "\n", "Yes", " I"], 1, " \nYes", id="only white space"),
    ],
)
async def test_an_answer_is_left_at_the_end_of_a_word(
    pieces: list[str], asked_after: int, text: str
) -> None:
    assert await left_after(pieces, asked_after=asked_after) == text


async def test_white_space_that_the_server_would_drop_is_no_place_to_leave() -> None:
    trims = Resume(ResumeWay.CONTINUE, trims=True)
    pieces = ["A ", "boat ", "sails", " on"]
    left = await left_after(pieces, asked_after=1, resume=trims)
    assert left == "A boat sails"


@pytest.mark.parametrize(
    "pieces", [["One. ", "Two. "], ["<think>", "Well. ", "Now. "], [" ", " "]]
)
async def test_an_answer_that_could_not_go_on_is_not_left(pieces: list[str]) -> None:
    resume = None if pieces[0] == "One. " else BOTH
    assert await left_after(pieces, asked_after=1, resume=resume) is None


async def test_who_is_asked_to_stay_stays() -> None:
    answer = OpenAnswer()
    answer.resume = BOTH
    chat = ChatStream(answer)
    answer.interrupt()
    answer.stay()
    assert text_of(chat.feed(chunk({"content": "One. "}).encode())) == "One. "


async def test_a_word_without_an_end_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_answer, "_WORD_LIMIT_S", 0.0)
    assert await left_after(["long", "long", "long"], asked_after=1) == "longlong"


async def test_a_tool_call_that_has_begun_is_not_left() -> None:
    answer = OpenAnswer()
    answer.resume = BOTH
    chat = ChatStream(answer)
    call = {"index": 0, "id": "1", "function": {"name": "HassTurnOn", "arguments": ""}}
    list(chat.feed(chunk({"tool_calls": [call]}).encode()))
    answer.interrupt()
    assert not answer.can_go_on()
    assert list(chat.feed(chunk({"content": " and. "}).encode()))


async def test_a_finished_answer_is_not_left() -> None:
    answer = OpenAnswer()
    answer.resume = BOTH
    chat = ChatStream(answer)
    answer.interrupt()
    end = chunk({"content": "Done."}, "stop") + chunk({})
    assert text_of(chat.feed(end.encode())) == "Done."


async def test_reasoning_where_it_can_not_go_on_is_not_left() -> None:
    answer = OpenAnswer()
    answer.resume = Resume(ResumeWay.CONTINUE)
    chat = ChatStream(answer)
    list(chat.feed(chunk({"reasoning_content": "Well. "}).encode()))
    assert not answer.can_go_on()
    answer.resume = BOTH
    assert answer.can_go_on()


async def test_where_it_can_go_on_after_reasoning_only_it_is_left_there_only() -> None:
    answer = OpenAnswer()
    answer.resume = Resume(ResumeWay.CONTINUE, after_reasoning=True)
    chat = ChatStream(answer)
    list(chat.feed(chunk({"reasoning": "Well. "}).encode()))
    assert not answer.can_go_on()
    list(chat.feed(chunk({"content": "Four. "}).encode()))
    assert answer.can_go_on()


# ---- over HTTP ----------------------------------------------------------------------


async def half_and_rest(
    engine: Engine, request: GenerationRequest
) -> tuple[list[Delta], list[Delta]]:
    """Leave an answer after its first piece of text, and go on with it."""
    answer = OpenAnswer()
    half: list[Delta] = []

    async def leave() -> None:
        async with engine.stream(request, answer) as deltas:
            half.append(await first_content(deltas))
            answer.interrupt()
            half.extend([delta async for delta in deltas])

    with pytest.raises(InterruptedAnswer):
        await leave()
    answer.left()
    async with engine.stream(request, answer) as deltas:
        return half, [delta async for delta in deltas]


@pytest.mark.parametrize(
    ("options", "resume"),
    [
        ({}, Resume(ResumeWay.CONTINUE, reasoning=True)),
        ({"knows_reasoning": False}, Resume(ResumeWay.CONTINUE)),
        ({"trims": True}, Resume(ResumeWay.CONTINUE, reasoning=True, trims=True)),
        ({"continues": False}, Resume(ResumeWay.TEMPLATE)),
        ({"kind": "vllm"}, Resume(ResumeWay.CONTINUE, after_reasoning=True)),
        (
            {"kind": "vllm", "knows_reasoning": False},
            Resume(ResumeWay.CONTINUE),
        ),
        ({"kind": "vllm", "continues": False}, None),
        ({"kind": "openai_compatible"}, None),
    ],
)
async def test_how_a_server_goes_on_is_found_out_without_generating(
    session: aiohttp.ClientSession, options: dict[str, Any], resume: Resume | None
) -> None:
    async with ContinuingServer(**options) as server:
        capabilities = await engine_for(session, server).probe()
    assert capabilities.resume == resume


@pytest.mark.parametrize(
    "options", [{}, {"continues": False}, {"kind": "vllm"}, {"trims": True}]
)
async def test_the_rest_follows_the_half(
    session: aiohttp.ClientSession, options: dict[str, Any]
) -> None:
    pieces = ["One two", " three 🙂", " four"]
    async with ContinuingServer(pieces=pieces, **options) as server:
        engine = engine_for(session, server)
        await engine.probe()
        server.pieces.insert(1, asyncio.Event())
        half, rest = await half_and_rest(engine, ask(tools=[]))
        await server.chats[-1].wait_ended()
    assert text_of(half) == "One two"
    assert text_of(rest) == " three 🙂 four"
    assert finishes_of(rest) == ["stop"]


async def test_a_raw_prompt_takes_no_fields_of_a_chat_along(
    session: aiohttp.ClientSession,
) -> None:
    server = ContinuingServer(pieces=["One two", " three"], continues=False)
    async with server:
        engine = engine_for(session, server)
        await engine.probe()
        server.pieces.insert(1, asyncio.Event())
        parameters = {"temperature": 0, "chat_template_kwargs": {}, "stop": "x"}
        await half_and_rest(engine, ask(parameters=parameters))
        (body,) = [r.body for r in server.requests if r.path == "/v1/completions"]
    assert body["prompt"].endswith("<assistant>One two")
    assert {"messages", "chat_template_kwargs", "reasoning_format"}.isdisjoint(body)
    assert (body["temperature"], body["stop"], body["stream"]) == (0, "x", True)


async def test_a_server_that_can_not_go_on_is_not_asked_to(
    session: aiohttp.ClientSession,
) -> None:
    answer = OpenAnswer()
    list(answer.text.add("One", 1))
    async with FakeServer("openai_compatible") as server:
        engine = engine_for(session, server)

        async def go_on() -> None:
            async with engine.stream(ask(), answer):
                pytest.fail("it went on")

        assert type(await error_of(go_on())) is EngineError
        assert server.chats == []


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, True),
        ({"response_format": {"type": "text"}, "tool_choice": "auto"}, True),
        ({"response_format": {"type": "json_object"}}, False),
        ({"response_format": "json"}, False),
        ({"grammar": "root ::= x"}, False),
        ({"logprobs": True}, False),
        ({"logprobs": False}, True),
        ({"tool_choice": "required"}, False),
        ({"continue_final_message": True}, False),
    ],
)
def test_only_plain_answers_can_go_on(
    parameters: dict[str, Any], *, expected: bool
) -> None:
    assert goes_on(ask(parameters=parameters)) is expected


def test_a_request_that_continues_a_message_is_left_alone() -> None:
    assert not goes_on(ask_with([{"role": "assistant", "content": "So"}]))
    assert goes_on(ask_with([]))


async def test_an_interruption_while_patience_ends_breaks_nobody_else() -> None:
    answer = OpenAnswer()
    answer.resume = BOTH

    async def wait() -> None:
        async with asyncio.timeout(0) as limit:
            answer.reads(limit)
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    # Its timeout has fired by the second turn of the loop; it is told in the third.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    answer.interrupt()
    with pytest.raises(TimeoutError):
        await waiting
    assert answer.asked


@pytest.mark.parametrize(
    "request_",
    [
        ask(tools=[TOOL]),
        ask_with([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]),
    ],
    ids=["tools", "parts"],
)
async def test_what_is_more_than_text_does_not_go_on_as_a_raw_prompt(
    session: aiohttp.ClientSession, request_: GenerationRequest
) -> None:
    async with ContinuingServer(pieces=["One", " two"], continues=False) as server:
        engine = engine_for(session, server)
        await engine.probe()
        answer = OpenAnswer()
        async with engine.stream(request_, answer) as deltas:
            await first_content(deltas)
            assert not answer.can_go_on()
