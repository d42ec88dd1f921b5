"""What the demo can be told, and what it says about what it cannot do."""

from pathlib import Path
import re

import pytest

from demo.command_line import command_line, parse

SCRIPT = Path(__file__).parents[2] / "scripts" / "demo"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--once", ""], "there is nothing to ask"),
        (["--once", "  "], "there is nothing to ask"),
        (["--as", "child"], "--as goes with --once"),
        (["--load", "--as", "child"], "--as goes with --once"),
        (["--once", "Hello", "--load"], "choose one"),
        (["--json"], "--json goes with --once or --load"),
        (["--api-key", "secret"], "--api-key goes with --server"),
        (["--load", "--seconds", "0"], "--seconds must be more than 0"),
    ],
)
def test_what_makes_no_sense_is_explained(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_question_is_taken_with_who_asks_it() -> None:
    arguments = parse(["--once", "Hello", "--as", "child"])
    assert (arguments.once, arguments.member) == ("Hello", "child")


def test_the_help_before_the_set_up_names_the_same_options() -> None:
    _, _, script = SCRIPT.read_text(encoding="utf-8").partition("<<'HELP'")
    text, _, _ = script.partition("\nHELP\n")
    named = set(re.findall(r"--[a-z-]+", text))
    assert named == set(re.findall(r"--[a-z-]+", command_line().format_help()))
