"""Asking a server to go on with an answer that was interrupted, and whether it can.

What was found with llama.cpp (builds 11549 and 11669) and vLLM 0.32: both continue the
last message when ``continue_final_message`` is true and ``add_generation_prompt`` is
false; either alone is refused or does something else. The text must not be empty, else
the model would begin a turn of the user. llama.cpp goes on inside a block of reasoning
too if that is given back in the field in which it came, where its chat template knows
the field. Others drop it, and some templates trim the text. So it is tried out with
prompts that are only rendered.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .base import GenerationRequest, Resume, ResumeWay
from .open_answer import OpenAnswer
from .think import closes_block

COMPLETION_PATH = "/v1/completions"

CONTINUES: Mapping[str, bool] = {
    "continue_final_message": True,
    "add_generation_prompt": False,
}

# Fields of a chat that say how its prompt is made, or how its answer is read.
_CHAT_ONLY = {
    "add_generation_prompt",
    "chat_template_kwargs",
    "continue_final_message",
    "messages",
    "parallel_tool_calls",
    "reasoning_effort",
    "reasoning_format",
    "tool_choice",
    "tools",
}

# Fields that shape an answer as a whole, or ask for more than its text.
_IN_ONE_PIECE = (
    "best_of",
    "continue_final_message",
    "echo",
    "grammar",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "json_schema",
    "logprobs",
    "prompt_logprobs",
    "return_token_ids",
    "structured_outputs",
    "top_logprobs",
)

_QUESTION: Mapping[str, Any] = {"role": "user", "content": "Hi"}
_PART = "Once upon a time"

type Messages = Sequence[Mapping[str, Any]]
type Render = Callable[[Messages], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to a server: where to, and with what."""

    path: str
    body: Mapping[str, Any]


def goes_on(request: GenerationRequest) -> bool:
    """Whether an answer to this request could go on after an interruption.

    Not if a grammar shapes it, if a tool has to be called, if more than the text is
    wanted, or if the request itself continues a message.
    """
    parameters = request.parameters
    form = parameters.get("response_format")
    is_text = form is None or (isinstance(form, Mapping) and form.get("type") == "text")
    may_choose = parameters.get("tool_choice") in (None, "auto", "none")
    last = request.messages[-1].get("role") if request.messages else None
    return (
        is_text
        and not request.raw
        and may_choose
        and last != "assistant"
        and not any(parameters.get(name) for name in _IN_ONE_PIECE)
    )


def is_plain(request: GenerationRequest) -> bool:
    """Whether there is nothing but text in a request, and no tool to be called."""
    return not request.tools and all(
        isinstance(message.get("content"), str | None) for message in request.messages
    )


def is_text(request: GenerationRequest) -> bool:
    """Whether the messages of a request are nothing but text, maybe in parts."""
    contents = [message.get("content") for message in request.messages]
    parts = [part for each in contents if isinstance(each, list) for part in each]
    return all(isinstance(each, str | list | None) for each in contents) and all(
        isinstance(part, Mapping) and part.get("type") == "text" for part in parts
    )


def continued(body: Mapping[str, Any], answer: OpenAnswer) -> Mapping[str, Any]:
    """Return the fields of a chat body that have the server go on with ``answer``."""
    return {"messages": [*body["messages"], _message(answer)], **CONTINUES}


def completion_body(
    body: Mapping[str, Any], prompt: str, answer: OpenAnswer
) -> Mapping[str, Any]:
    """Return a body that has the text of prompt and answer completed."""
    kept = {name: value for name, value in body.items() if name not in _CHAT_ONLY}
    return {**kept, "prompt": prompt + answer.text.received}


async def try_continuing(render: Render) -> Resume | None:
    """Find out how a server continues messages, ``None`` if it does not.

    ``render`` returns the prompt for messages of which the last is to be continued, or
    ``None`` if that is refused.
    """
    exact = await render([_QUESTION, _answered(_PART + " ")])
    if exact is None:
        return None
    if exact.endswith(_PART + " "):
        trims = False
    elif exact.endswith(_PART):
        trims = True
    else:
        return None
    inside = await render([_QUESTION, _answered("", _PART)])
    after = await render([_QUESTION, _answered("So", _PART)])
    reasoning = (
        inside is not None
        and inside.endswith(_PART)
        and after is not None
        and _PART in after
        and after.endswith("So")
    )
    return Resume(ResumeWay.CONTINUE, reasoning=reasoning, trims=trims)


async def shows_end_of_reasoning(render: Render) -> bool:
    """Find out whether a prompt shows where the reasoning before an answer ended.

    A server that tells reasoning apart by its tags needs that to know that what it
    goes on with is none.
    """
    after = await render([_QUESTION, _answered("So", _PART)])
    if after is None or not after.endswith("So"):
        return False
    _, part, rest = after.partition(_PART)
    return bool(part) and closes_block(rest)


def _message(answer: OpenAnswer) -> Mapping[str, Any]:
    text = answer.text
    return _answered(text.received, text.reasoned if text.separated else "")


def _answered(content: str, reasoning: str = "") -> Mapping[str, Any]:
    message = {"role": "assistant", "content": content}
    return {**message, "reasoning_content": reasoning} if reasoning else message
