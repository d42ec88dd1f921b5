"""Every rule that can be changed has its effect in the queue of a running household."""

import asyncio
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from freezegun.api import FrozenDateTimeFactory
from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.admission.model import (
    QuotaWindow,
    Rejected,
    RejectReason,
    Request,
    ServerCapacity,
    TokenCount,
    Verdict,
    Workload,
)
from custom_components.fair_share.admission.policies import POLICIES
from custom_components.fair_share.admission.queue import Grant
from custom_components.fair_share.household import settings
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, set_up
from tests.platforms.conftest import until

VOICE, HELP, CHAT = Workload.VOICE, Workload.ACCESSIBILITY, Workload.CHAT
TASK, BACKGROUND = Workload.TASK, Workload.BACKGROUND


@dataclass
class Line:
    """Requests of a household, each held from its start until it is let go."""

    hass: HomeAssistant
    entry: MockConfigEntry
    freezer: FrozenDateTimeFactory
    started: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    grants: dict[str, Grant] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)

    @property
    def household(self) -> Household:
        """The running household."""
        running: Household = self.entry.runtime_data
        return running

    def serve(self, **capacity: Any) -> None:
        """Give the household a server with one slot, or like this."""
        usual = {"slots": 1, "context_tokens": 100_000}
        self.household.queue.put_server(ServerCapacity("box", **(usual | capacity)))

    async def set(self, **options: Any) -> None:
        """Change options of the household."""
        self.hass.config_entries.async_update_entry(
            self.entry, options={**self.entry.options, **options}
        )
        await self.hass.async_block_till_done()

    async def change(self, subentry_id: str, **data: Any) -> None:
        """Change a member."""
        known = self.entry.subentries[subentry_id]
        self.hass.config_entries.async_update_subentry(
            self.entry, known, data=MappingProxyType({**known.data, **data})
        )
        await self.hass.async_block_till_done()

    async def ask(
        self,
        name: str,
        workload: Workload = CHAT,
        user: str = "user_parent",
        *,
        prompt: int = 10,
        output: int = 1000,
    ) -> None:
        """Let a user ask something, and wait until it waits or has started."""
        household = self.household
        asker = household.identity.resolve(Context(user_id=user), None, None)
        household.queue.put_node(household.registry.source_spec(asker))
        leaf = household.registry.class_for(asker, workload)
        household.queue.put_class(leaf)
        request = Request(name, leaf.class_id, prompt, output)
        self.gates[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(request))
        await until(
            lambda: self.tasks[name].done() or household.queue.scheduler.knows(name)
        )

    async def _run(self, request: Request) -> None:
        name = request.request_id
        async with self.household.queue.admit(request) as grant:
            self.grants[name] = grant
            self.started.append(name)
            grant.listen(lambda: self.interrupted.append(name))
            await self.gates[name].wait()
            grant.settle(TokenCount(request.prompt_tokens, 0, 1), estimated=False)
            grant.finish()

    def running(self) -> list[str]:
        """Return what runs now, in the order of the latest start."""
        requests = self.household.status().requests
        return [each.request_id for each in requests if each.server_id]

    def say(self, name: str, tokens: int = 20) -> Verdict:
        """Let a running answer go on by so many tokens."""
        return self.grants[name].output(tokens)

    async def end(self, *names: str) -> None:
        """Let these end, one after the other."""
        for name in names:
            await until(lambda n=name: n in self.grants)
            self.gates[name].set()
            await self.tasks[name]
            await self.hass.async_block_till_done()

    async def order(self, running: str) -> list[str]:
        """Let ``running`` end, then whatever starts; return who started after it."""
        await self.end(running)
        while self.household.status().running:
            await until(lambda: self.started[-1] in self.grants)
            await self.end(self.started[-1])
        return self.started[self.started.index(running) + 1 :]

    def pass_time(self, seconds: float) -> None:
        """Let time go by, and the queue look at it."""
        self.freezer.tick(seconds)
        self.household.queue.decide()

    def refusal(self, name: str) -> RejectReason:
        """Return why a request was refused."""
        error = self.tasks[name].exception()
        assert isinstance(error, Rejected)
        return error.reason


@pytest.fixture
async def line(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, monkeypatch: pytest.MonkeyPatch
) -> Line:
    """A household of Parent and Child; time stands still."""
    freezer.move_to("2026-11-30T20:00:00+00:00")
    assert await async_setup_component(hass, "homeassistant", {})
    entry = household_entry(
        member("parent", user_ids=("user_parent",)),
        member("child", user_ids=("user_child",)),
        options={"preemption": False, "background_share_percent": 0},
    )
    await set_up(hass, entry)
    return Line(hass, entry, freezer)


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("equal_tokens", ["child", "parent"]),
        ("equal_waiting", ["parent", "child"]),
        ("equal_completion", ["child", "parent"]),
        ("latency_first", ["parent", "child"]),
    ],
)
async def test_the_policy_decides_who_is_next(
    line: Line, policy: str, order: list[str]
) -> None:
    line.serve()
    await line.ask("much", prompt=5000)
    await line.end("much")
    await line.ask("running")
    await line.ask("parent")
    line.pass_time(1)
    await line.ask("child", user="user_child")
    await line.set(policy=policy)
    assert await line.order("running") == order


@pytest.mark.parametrize(
    ("share", "order"),
    [(0, ["chat", "more", "summary"]), (50, ["chat", "summary", "more"])],
)
async def test_background_work_gets_the_share_that_is_kept_for_it(
    line: Line, share: float, order: list[str]
) -> None:
    line.serve()
    await line.set(background_share_percent=share)
    await line.ask("running")
    await line.ask("summary", BACKGROUND, prompt=10, output=10)
    await line.ask("chat", prompt=2000)
    await line.ask("more")
    assert await line.order("running") == order


@pytest.mark.parametrize(
    ("band", "order"), [(None, ["chat", "task"]), (3, ["task", "chat"])]
)
async def test_the_urgency_of_a_kind_of_requests_decides(
    line: Line, band: int | None, order: list[str]
) -> None:
    line.serve()
    await line.ask("running")
    await line.ask("task", TASK, user="user_child")
    await line.ask("chat")
    await line.set(workloads={"chat": {"band": band}})
    assert await line.order("running") == order


@pytest.mark.parametrize(
    ("target", "order"), [(None, ["help", "voice"]), (0.5, ["voice", "help"])]
)
async def test_the_first_word_is_wanted_when_the_rules_say(
    line: Line, target: float | None, order: list[str]
) -> None:
    line.serve()
    await line.set(policy="latency_first")
    await line.ask("running")
    await line.ask("help", HELP)
    line.pass_time(0.1)
    await line.ask("voice", VOICE, user="user_child")
    await line.set(workloads={"voice": {"ttft_target_s": target}})
    assert await line.order("running") == order


@pytest.mark.parametrize(
    ("step", "order"), [(None, ["task", "chat"]), (1000, ["chat", "task"])]
)
async def test_waiting_makes_more_urgent_after_what_the_rules_say(
    line: Line, step: float | None, order: list[str]
) -> None:
    line.serve()
    await line.ask("running")
    await line.ask("task", TASK)
    line.pass_time(130)
    await line.ask("chat", user="user_child")
    await line.set(workloads={"task": {"age_step_s": step}})
    assert await line.order("running") == order


@pytest.mark.parametrize(
    ("limit", "order"), [(None, ["chat", "task"]), (40, ["task", "chat"])]
)
async def test_a_request_is_overdue_after_what_the_rules_say(
    line: Line, limit: float | None, order: list[str]
) -> None:
    line.serve()
    await line.ask("running")
    await line.ask("task", TASK)
    line.pass_time(45)
    await line.ask("chat", user="user_child")
    await line.set(workloads={"task": {"max_wait_s": limit}})
    assert await line.order("running") == order


@pytest.mark.parametrize(
    ("target", "order"), [(None, ["help", "voice"]), (5, ["voice", "help"])]
)
async def test_a_whole_answer_is_wanted_when_the_rules_say(
    line: Line,
    target: float | None,
    order: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "OFFERED", tuple(POLICIES))
    line.serve()
    await line.set(policy="equal_completion")
    await line.ask("running", user="somebody")
    await line.ask("help", HELP)
    line.pass_time(0.1)
    await line.ask("voice", VOICE, user="user_child")
    await line.set(workloads={"voice": {"completion_target_s": target}})
    assert await line.order("running") == order


@pytest.mark.parametrize(("patience", "kept"), [(None, True), (30, False)])
async def test_a_request_is_kept_without_a_server_for_what_the_rules_say(
    line: Line, *, patience: float | None, kept: bool
) -> None:
    await line.set(workloads={"chat": {"patience_s": patience}})
    await line.ask("chat")
    line.pass_time(31)
    await line.hass.async_block_till_done()
    assert (line.household.status().waiting == 1) is kept
    line.household.queue.close()
    with pytest.raises(Rejected):
        await line.tasks["chat"]


async def test_a_running_answer_is_interrupted_only_if_the_household_wants_it(
    line: Line,
) -> None:
    line.serve()
    await line.ask("summary", BACKGROUND)
    line.say("summary")
    await line.ask("voice", VOICE)
    assert line.interrupted == []
    await line.set(preemption=True)
    assert line.interrupted == ["summary"]
    await line.end("summary", "voice")


@pytest.mark.parametrize(
    ("preemptible", "interrupted"), [(None, ["summary"]), (False, [])]
)
async def test_a_kind_of_requests_may_be_kept_from_interruptions(
    line: Line, *, preemptible: bool | None, interrupted: list[str]
) -> None:
    line.serve()
    changed = {"background": {"preemptible": preemptible}}
    await line.set(preemption=True, workloads=changed)
    await line.ask("summary", BACKGROUND)
    line.say("summary")
    await line.ask("voice", VOICE)
    assert line.interrupted == interrupted
    await line.end("summary", "voice")


@pytest.mark.parametrize(("threshold", "interrupted"), [(None, []), (100, ["mine"])])
async def test_equals_are_interrupted_for_a_lead_that_the_rules_set(
    line: Line, threshold: float | None, interrupted: list[str]
) -> None:
    line.serve()
    await line.set(preemption=True, preemption_threshold=threshold)
    await line.ask("mine", prompt=200)
    line.say("mine")
    await line.ask("theirs", user="user_child")
    assert line.interrupted == interrupted
    await line.end("mine", "theirs")


@pytest.mark.parametrize(("most", "resumed"), [(None, "chat"), (3, "task")])
async def test_an_interrupted_answer_goes_on_after_what_the_rules_say(
    line: Line, most: float | None, resumed: str
) -> None:
    line.serve()
    await line.set(preemption=True, workloads={"task": {"max_pause_s": most}})
    await line.ask("task", TASK)
    line.say("task")
    await line.ask("voice", VOICE, user="user_child")
    paused = asyncio.create_task(line.grants["task"].pause())
    await line.ask("chat", user="user_child")
    line.pass_time(5)
    await line.end("voice")
    assert line.running() == [resumed]
    assert line.household.node_status("parent").preemptions == 1
    await line.set(preemption=False)
    await line.end(resumed)
    await line.end(*{"task", "chat"} - {resumed})
    await paused


@pytest.mark.parametrize(
    ("bypass", "running"), [(None, ["mine", "small"]), (0, ["mine"])]
)
async def test_smaller_requests_overtake_as_far_as_the_rules_allow(
    line: Line, bypass: float | None, running: list[str]
) -> None:
    line.serve(slots=3, kv_tokens=1000)
    await line.set(bypass=bypass)
    await line.ask("mine", output=600)
    await line.ask("large", user="user_child", output=600)
    await line.ask("small", output=10)
    assert line.running() == running
    await line.end("mine", "large", "small")


@pytest.mark.parametrize(
    ("at_end", "verdict"),
    [("stop", Verdict.STOP_QUOTA), ("finish", Verdict.CONTINUE)],
)
async def test_a_used_up_quota_of_guests_ends_as_the_rules_say(
    line: Line, at_end: str, verdict: Verdict
) -> None:
    line.serve()
    await line.set(guest_quota_tokens=50, guest_quota_end=at_end)
    await line.ask("guest", user="somebody")
    assert line.say("guest", 60) is verdict
    await line.end("guest")
    await line.ask("again", user="somebody", prompt=100)
    await line.end("again")
    await line.ask("refused", user="somebody")
    assert line.refusal("refused") is RejectReason.QUOTA


async def test_a_used_up_quota_of_a_member_only_slows_down_if_they_like(
    line: Line,
) -> None:
    line.serve()
    await line.change("parent", quota_tokens=50, quota_end="demote")
    await line.ask("much", prompt=100)
    await line.end("much")
    await line.ask("running")
    await line.ask("demoted")
    await line.ask("task", TASK, user="user_child")
    assert await line.order("running") == ["task", "demoted"]


STEADY = {"quota_tokens": 100, "quota_window": "steady", "quota_refill": 3600}


async def test_a_steady_quota_of_a_member_comes_back_by_the_hour(line: Line) -> None:
    line.serve()
    await line.change("parent", **STEADY)
    await line.ask("much", prompt=120)
    await line.end("much")
    await line.ask("waits")
    line.pass_time(20)
    assert line.running() == []
    line.pass_time(3)
    assert line.running() == ["waits"]
    await line.end("waits")


async def test_a_steady_quota_of_guests_comes_back_by_the_hour(line: Line) -> None:
    line.serve()
    await line.set(**{f"guest_{key}": value for key, value in STEADY.items()})
    await line.ask("much", user="somebody", prompt=120)
    await line.end("much")
    line.pass_time(50)
    window = line.household.node_status("guest").window
    assert (window.used_tokens, window.remaining_tokens) == (71, 29)


@pytest.mark.parametrize("window", QuotaWindow)
async def test_a_quota_of_guests_is_for_a_period_of_the_calendar(
    line: Line, window: QuotaWindow
) -> None:
    await line.set(guest_quota_tokens=50, guest_quota_window=window.value)
    assert line.household.node_status("guest").window.window is window


async def test_a_member_has_no_more_requests_waiting_than_their_limit(
    line: Line,
) -> None:
    line.serve()
    await line.change("parent", queued=1)
    await line.ask("running")
    await line.ask("waits")
    await line.ask("refused")
    assert line.refusal("refused") is RejectReason.QUEUE_FULL
    await line.ask("theirs", user="user_child")
    assert await line.order("running") == ["theirs", "waits"]


async def test_a_member_has_no_more_answers_at_once_than_their_limit(
    line: Line,
) -> None:
    line.serve(slots=2)
    await line.change("parent", in_flight=1)
    await line.ask("one")
    await line.ask("two")
    assert line.running() == ["one"]
    await line.change("parent", in_flight=None)
    assert line.running() == ["one", "two"]
    await line.end("one", "two")


async def test_a_new_weight_changes_who_is_next(line: Line) -> None:
    line.serve()
    await line.ask("much", prompt=5000)
    await line.end("much")
    await line.ask("running", user="user_child")
    await line.ask("mine")
    await line.ask("theirs", user="user_child")
    await line.ask("more", user="user_child")
    await line.change("child", weight=100.0)
    assert await line.order("running") == ["theirs", "more", "mine"]
