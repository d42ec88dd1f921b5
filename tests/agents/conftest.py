"""A house with an agent on a fake server, and ways to talk to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from homeassistant.components import conversation
from homeassistant.components.conversation.chat_log import DATA_CHAT_LOGS
from homeassistant.core import Context, HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import llm
from homeassistant.setup import async_setup_component
import probatio
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry, MockUser

from custom_components.fair_share.household.runtime import Household
from tests.common import agent, device, household_entry, member, server
from tests.fake_server import FakeServer

AGENT = "conversation.fair_share"
TURN_ON = "intent__HassTurnOn"
LOOK = "house__LookUp"
BROKEN = "house__Broken"
API = "house"


class HouseTool(llm.Tool):
    """A tool that remembers how it was called and answers with what it is told."""

    integration = "test"

    def __init__(self, name: str, calls: list[llm.ToolInput]) -> None:
        self.name = name
        self.description = f"Does {name}."
        self.parameters = probatio.Schema({probatio.Optional("name"): str})
        self.result: dict[str, Any] = {"done": True}
        self.error: HomeAssistantError | None = None
        self._calls = calls

    async def async_call(
        self,
        hass: HomeAssistant,
        tool_input: llm.ToolInput,
        llm_context: llm.LLMContext,
    ) -> llm.ToolResult:
        self._calls.append(tool_input)
        if self.error:
            raise self.error
        return llm.ToolResult(data=dict(self.result))


@dataclass(kw_only=True)
class HouseApi(llm.API):
    """The tools of the house, in an order that is not theirs by name."""

    tools: dict[str, HouseTool] = field(default_factory=dict)
    calls: list[llm.ToolInput] = field(default_factory=list)
    prompt: str = "Use the tools."

    def __post_init__(self) -> None:
        names = (TURN_ON, LOOK, BROKEN)
        self.tools = {name: HouseTool(name, self.calls) for name in names}
        self.tools[BROKEN].error = HomeAssistantError("The fuse is blown")

    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        return llm.APIInstance(self, self.prompt, llm_context, [*self.tools.values()])

    def called(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the calls that were made."""
        return [(call.tool_name, call.tool_args) for call in self.calls]


@dataclass
class House:
    """A running household with an agent, its server and its tools."""

    hass: HomeAssistant
    entry: MockConfigEntry
    server: FakeServer
    api: HouseApi
    chats_before: int

    @property
    def household(self) -> Household:
        return self.entry.runtime_data

    @property
    def sent(self) -> list[Mapping[str, Any]]:
        """The bodies of the chats that the agent sent."""
        return [chat.body for chat in self.server.chats[self.chats_before :]]

    def sent_messages(self, number: int = -1) -> list[Mapping[str, Any]]:
        """Return the messages of one of them."""
        return self.sent[number]["messages"]

    async def say(
        self,
        text: str = "hello",
        conversation_id: str | None = None,
        user_id: str | None = "user_parent",
        agent_id: str = AGENT,
        **further: Any,
    ) -> conversation.ConversationResult:
        """Say something to the agent and return its answer."""
        return await conversation.async_converse(
            self.hass,
            text,
            conversation_id,
            Context(user_id=user_id),
            agent_id=agent_id,
            **further,
        )

    def contents(
        self, result: conversation.ConversationResult
    ) -> list[conversation.Content]:
        """Return what the chat log holds of the conversation, without the system's."""
        assert result.conversation_id is not None
        return self.hass.data[DATA_CHAT_LOGS][result.conversation_id].content[1:]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until something is so; fail if it never is."""
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - nothing tells when it is so
                await asyncio.sleep(0)

    def is_at_rest(self) -> bool:
        """Whether nothing waits and nothing runs, here and on the server."""
        status = self.household.status()
        return (status.waiting, status.running, self.server.running) == (0, 0, 0)


def speech(result: conversation.ConversationResult) -> str:
    """Return what is said to the user."""
    said = result.response.speech["plain"]["speech"]
    assert isinstance(said, str)
    return said


def is_error(result: conversation.ConversationResult) -> bool:
    """Whether the user is told of an error."""
    return result.response.response_type.value == "error"


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every real Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})
    assert await async_setup_component(hass, "conversation", {})
    MockUser(id="user_parent", name="Parent").add_to_hass(hass)


@pytest.fixture
async def llama() -> AsyncIterator[FakeServer]:
    """A llama.cpp server with two slots."""
    models = ("fake-model", "another-model")
    async with FakeServer(
        "llama_cpp", slots=2, context_tokens=4096, models=models
    ) as fake:
        yield fake


@pytest.fixture
def agent_data() -> dict[str, Any]:
    """How the agent is set up; tests that want it otherwise have their own."""
    return {"llm_hass_api": [API]}


@pytest.fixture
def member_data() -> dict[str, Any]:
    """What Parent may use."""
    return {}


@pytest.fixture
async def house(
    hass: HomeAssistant,
    llama: FakeServer,
    agent_data: dict[str, Any],
    member_data: dict[str, Any],
) -> House:
    """Parent's house, with a satellite of hers in the kitchen."""
    api = HouseApi(hass=hass, id=API, name="House")
    llm.async_register_api(hass, api)
    entry = household_entry(
        server(llama.url),
        member("parent", user_ids=("user_parent",), **member_data),
        device("kitchen", "d_kitchen", "parent", workload="voice"),
        agent(**agent_data),
    )
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    return House(hass, entry, llama, api, len(llama.chats))
