"""Reasoning that is written into the text of an answer."""

import pytest

from custom_components.fair_share.engines.base import Content, Thinking, WasThinking
from custom_components.fair_share.engines.think import Piece, ThinkFilter, opens_block


def split(
    *texts: str, starts_inside: bool = False, complete: bool = True
) -> tuple[str, str, ThinkFilter]:
    """Return what is spoken, what is thought, and the filter."""
    think = ThinkFilter(starts_inside=starts_inside)
    pieces = [piece for text in texts for piece in think.feed(text, 1)]
    pieces += think.close(complete=complete)
    assert sum(getattr(piece, "tokens", 0) for piece in pieces) == len(texts)
    spoken = thought = ""
    for piece in pieces:
        spoken, thought = heard(spoken, thought, piece)
    return spoken, thought, think


def heard(spoken: str, thought: str, piece: Piece) -> tuple[str, str]:
    """Return what is spoken and thought with this piece, too."""
    match piece:
        case Content():
            return spoken + piece.text, thought
        case Thinking():
            return spoken, thought + piece.text
        case WasThinking():
            return "", thought + spoken


@pytest.mark.parametrize(
    ("text", "spoken", "thought"),
    [
        pytest.param("Hello", "Hello", "", id="no block"),
        pytest.param("<think>a</think>b", "b", "a", id="block, then the answer"),
        pytest.param("<think>a</think>\n\nb", "b", "a", id="blank lines after a block"),
        pytest.param('<think depth="2">a</think>b', "b", "a", id="attributes"),
        pytest.param("<THINK>a</Think >b", "b", "a", id="other spelling"),
        pytest.param("<thinking>a</thinking>b", "b", "a", id="other name"),
        pytest.param("<reasoning>a</reasoning>b", "b", "a", id="another name"),
        pytest.param("<seed:think>a</seed:think>b", "b", "a", id="a prefix"),
        pytest.param("a</think>\n\nb", "b", "a", id="only closed"),
        pytest.param("<think>a</think>b</think>c", "c", "ab", id="closed twice"),
        pytest.param(
            "x <think>a</think>y<think>b</think>z", "x yz", "ab", id="several"
        ),
        pytest.param("<think>a", "", "a", id="never closed"),
        pytest.param("<think", "", "", id="a tag that is never finished"),
        pytest.param("<think>a</think", "", "a", id="a closing tag never finished"),
        pytest.param(
            "1 < 2 and <b>bold</b>", "1 < 2 and <b>bold</b>", "", id="other <"
        ),
        pytest.param("a <", "a <", "", id="ends with <"),
        pytest.param("a <thin", "a <thin", "", id="ends with half a name"),
        pytest.param("<thinker>a", "<thinker>a", "", id="a longer name"),
        pytest.param("  indented", "  indented", "", id="leading blanks are kept"),
    ],
)
def test_a_cut_at_any_character_changes_nothing(
    text: str, spoken: str, thought: str
) -> None:
    assert split(text)[:2] == (spoken, thought)
    assert split(*text)[:2] == (spoken, thought)
    for cut in range(1, len(text)):
        assert split(text[:cut], text[cut:])[:2] == (spoken, thought)


def test_text_is_not_held_back_without_need() -> None:
    think = ThinkFilter()
    assert think.feed("Good morning", 1) == [Content("Good morning", 1)]
    assert think.feed(" 1 <", 1) == [Content(" 1 ", 1)]
    assert think.feed(" 2", 1) == [Content("< 2", 1)]


def test_something_longer_than_any_tag_is_text() -> None:
    text = "<think " + "a" * 300
    assert split(*text)[0] == text


def test_what_a_lone_closing_tag_shows_to_be_reasoning_is_taken_back() -> None:
    spoken, thought, think = split("rea", "sons", "</think>", "\n\n", "answer")
    assert (spoken, thought) == ("answer", "reasons")
    assert think.opens_unseen


def test_nothing_is_taken_back_where_nothing_was_given() -> None:
    think = ThinkFilter()
    pieces = think.feed("reasons</think>answer", 1)
    assert pieces == [Thinking("reasons", 1), Content("answer", 0)]


@pytest.mark.parametrize(
    ("prompt", "opens"),
    [
        ("user: Hi\nassistant: <think>\n", "yes"),
        ("user: Hi\nassistant: ", "no"),
        ("user: Hi\nassistant: <think>\n\n</think>\n\n", "no"),
        ("user: what does <think> mean?\nassistant: ", "no"),
        ("system: <think></think>\nassistant: <thinking>", "yes"),
        ("", "no"),
    ],
)
def test_a_prompt_shows_whether_its_answer_begins_inside_a_block(
    prompt: str, opens: str
) -> None:
    assert opens_block(prompt) is (opens == "yes")


def test_an_ordinary_block_is_not_taken_for_a_lone_closing_tag() -> None:
    assert not split("<think>a</think>b")[2].opens_unseen


def test_where_answers_begin_inside_a_block_nothing_before_its_end_is_spoken() -> None:
    spoken, thought, think = split("rea", "sons</thi", "nk>answer", starts_inside=True)
    assert (spoken, thought) == ("answer", "reasons")
    assert think.opens_unseen
    assert not think.closed_nothing


def test_an_assumed_block_that_was_none_is_spoken_late_but_whole() -> None:
    spoken, _, think = split("Hel", "lo", starts_inside=True)
    assert spoken == "Hello"
    assert think.closed_nothing


def test_an_assumed_block_cut_off_at_its_limit_is_not_spoken() -> None:
    spoken, thought, think = split("rea", "sons", starts_inside=True, complete=False)
    assert (spoken, thought) == ("", "reasons")
    assert not think.closed_nothing


def test_an_empty_answer_in_an_assumed_block_stays_empty() -> None:
    assert split(starts_inside=True)[:2] == ("", "")


def test_text_before_an_opening_tag_shows_that_nothing_was_open() -> None:
    spoken, thought, think = split("Hi <think>a</think>b", starts_inside=True)
    assert (spoken, thought) == ("Hi b", "Hi a")
    assert think.closed_nothing


def test_a_server_that_separates_reasoning_ends_the_assumption() -> None:
    think = ThinkFilter(starts_inside=True)
    think.separated_by_server()
    assert think.feed("answer", 1) == [Content("answer", 1)]
