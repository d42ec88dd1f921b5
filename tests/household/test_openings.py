"""How the prompts of one agent begin, and by what that is known."""

from typing import Any

from custom_components.fair_share.engines.base import GenerationRequest
from custom_components.fair_share.household.openings import Opening

_SYSTEM = {"role": "system", "content": "Be brief."}
_TOOL = {"type": "function", "function": {"name": "lights"}}


def _request(*messages: dict[str, Any], **fields: Any) -> GenerationRequest:
    return GenerationRequest(messages, 64, **fields)


def _id(request: GenerationRequest) -> str:
    opening = Opening.of(request)
    assert opening is not None
    return opening.opening_id


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_all_questions_to_one_agent_have_one_opening() -> None:
    one = _request(_SYSTEM, _user("light"), tools=[_TOOL])
    other = _request(
        _SYSTEM,
        _user("heat"),
        {"role": "assistant", "content": "Done."},
        _user("more"),
        tools=[_TOOL],
        parameters={"temperature": 0.5},
    )
    assert _id(one) == _id(other)


def test_another_prompt_tool_model_or_template_is_another_opening() -> None:
    question = _user("light")
    ids = {
        _id(_request(_SYSTEM, question)),
        _id(_request({"role": "system", "content": "Be long."}, question)),
        _id(_request(_SYSTEM, question, tools=[_TOOL])),
        _id(_request(_SYSTEM, question, model="other")),
        _id(_request(_SYSTEM, question, parameters={"reasoning_effort": "low"})),
    }
    assert len(ids) == 5


def test_without_a_system_prompt_and_tools_nothing_is_shared() -> None:
    assert Opening.of(_request(_user("light"))) is None


def test_its_own_request_holds_the_opening_and_asks_for_next_to_nothing() -> None:
    opening = Opening.of(_request(_SYSTEM, _user("secret"), tools=[_TOOL]))
    assert opening is not None
    assert opening.request.messages[0] == _SYSTEM
    assert opening.request.tools == [_TOOL]
    assert opening.request.max_output_tokens == 1
    assert "secret" not in repr(opening)
