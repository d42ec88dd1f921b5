"""What else happens in a household: to its clocks, rules, members and servers."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    Caps,
    CostWeights,
    Limits,
    Outcome,
    PreemptionRules,
    ServerCapacity,
)
from custom_components.fair_share.admission.policies import OFFERED

from .expected import Expected
from .requests import (
    ANY,
    MEMBERS,
    QUOTAS,
    SOURCES,
    WEIGHTS,
    Requests,
    something_runs,
)

HASTY = PreemptionRules(threshold=100.0, min_run_tokens=1, nearly_done_tokens=0)
INTERRUPTIONS = (
    None,
    HASTY,
    replace(HASTY, while_reading=True, most_among_equals=3),
    PreemptionRules(threshold=300.0),
)
PROFILES = (
    DEFAULT_PROFILES,
    {
        kind: replace(each, age_step_s=3.0, max_wait_s=5.0, max_pause_s=1.0)
        for kind, each in DEFAULT_PROFILES.items()
    },
    {
        kind: replace(each, age_step_s=float("inf"), max_wait_s=float("inf"))
        for kind, each in DEFAULT_PROFILES.items()
    },
)
COSTS = (CostWeights(), CostWeights(1.0, 0.5, 4.0))
LIMITS = (Limits(), Limits(queued=12, queued_per_class=3))
IN_FLIGHT = (Caps(), Caps(in_flight=1), Caps(in_flight=2, queued=4))


class Disturbances(Requests):
    """A household in which everything changes while requests wait and run."""

    interruptions: tuple[PreemptionRules | None, ...] = (None,)
    policies: tuple[str, ...] = ("equal_tokens",)
    slots: tuple[int, ...] = (1, 2, 3)
    pins: tuple[int | None, ...] = (None,)

    @rule(
        seconds=st.one_of(st.floats(0, 20), st.floats(0, 400)),
        hours=st.sampled_from((0, 0, 0, 0, -30, -0.01, 0.01, 13, 26)),
    )
    def wait(self, seconds: float, hours: float) -> None:
        """Time goes by; now and then somebody sets the wall clock."""
        self.do("pass_time", seconds)
        if hours:
            self.do("step_clock", hours)

    @rule(
        kind=st.sampled_from(("weight", "source", "limits", "grant")),
        member=st.sampled_from(MEMBERS),
        source=st.sampled_from(SOURCES),
        weight=st.sampled_from(WEIGHTS),
        caps=st.sampled_from(IN_FLIGHT),
        quota=st.integers(0, len(QUOTAS) - 1),
        tokens=st.integers(1, 500),
    )
    def change_member(
        self,
        kind: str,
        member: str,
        source: str,
        weight: float,
        caps: Caps,
        quota: int,
        tokens: int,
    ) -> None:
        """A member or a device gets another weight or limit, or tokens for today."""
        limit = self.quotas[quota % len(self.quotas)]
        device = self.specs[f"{member}/{source}"]
        changes = {
            "weight": replace(self.specs[member], weight=weight),
            "source": replace(device, weight=weight, caps=caps),
            "limits": replace(self.specs[MEMBERS[0]], quota=limit, caps=caps),
        }
        if kind == "grant":
            self.do("grant", member, tokens)
        else:
            self.do("put_node", changes[kind])

    @rule(
        policy=st.integers(0, len(OFFERED) - 1),
        profiles=st.sampled_from(PROFILES),
        interruptions=st.integers(0, len(INTERRUPTIONS) - 1),
        share=st.sampled_from((0.0, 0.05, 0.3)),
        costs=st.sampled_from(COSTS),
        limits=st.sampled_from(LIMITS),
    )
    def change_rules(
        self,
        policy: int,
        profiles: object,
        interruptions: int,
        share: float,
        costs: CostWeights,
        limits: Limits,
    ) -> None:
        """The household thinks again about what is fair."""
        self.do(
            "configure",
            replace(
                self.rules,
                policy=self.policies[policy % len(self.policies)],
                profiles=profiles,
                preemption=self.interruptions[interruptions % len(self.interruptions)],
                background_share=share,
                costs=costs,
                limits=limits,
            ),
        )

    @rule(
        kind=st.sampled_from(
            (
                *("reopen", "reopen", "reopen", "exhaust", "close", "crash", "fail"),
                *("hold", "use_past_the_queue"),
            )
        ),
        place=st.integers(0, 1),
        amount=st.integers(0, 5),
    )
    def change_server(self, kind: str, place: int, amount: int) -> None:
        """Something happens to a server."""
        getattr(self, kind)(self.at(place), amount)

    def reopen(self, server: ServerCapacity, amount: int) -> None:
        """It comes back, or was started with other options."""
        slots = self.slots[amount % len(self.slots)]
        pin = self.pins[amount % len(self.pins)]
        self.do("put_server", replace(server, slots=slots, patient_slots=pin))

    def use_past_the_queue(self, server: ServerCapacity, amount: int) -> None:
        """Somebody talks to it directly, or has stopped that."""
        running = amount % 3
        self.foreign[server.server_id] = (running, 200 * running)
        self.do("put_foreign", server.server_id, *self.foreign[server.server_id])

    def exhaust(self, server: ServerCapacity, amount: int) -> None:
        """The engine had to make room by itself."""
        self.do("note_exhausted", server.server_id, amount)

    def close(self, server: ServerCapacity, amount: int) -> None:
        """It can't be reached; what runs there has not noticed."""
        del amount
        self.do("close_server", server.server_id)

    def crash(self, server: ServerCapacity, amount: int) -> None:
        """It fails, and what ran there waits to go on elsewhere."""
        self.close(server, amount)
        for expected in self.runs_on(server):
            self.lose(expected)
        self.reopen(server, amount)

    def fail(self, server: ServerCapacity, amount: int) -> None:
        """It fails, and all that ran there with it."""
        self.close(server, amount)
        for expected in self.runs_on(server):
            self.end(expected, Outcome.FAILED, None)
        self.reopen(server, amount)

    def runs_on(self, server: ServerCapacity) -> list[Expected]:
        """Return what runs on a server."""
        return [
            each for each in self.known.values() if each.server_id == server.server_id
        ]

    def hold(self, server: ServerCapacity, amount: int) -> None:
        """A slot stays busy after its request has left it, or is free at last."""
        del amount
        if self.held[server.server_id]:
            self.held[server.server_id] -= 1
            self.do("free_slot", server.server_id)
        else:
            self.held[server.server_id] += 1
            self.do("hold_slot", server.server_id)

    @precondition(something_runs)
    @rule(which=ANY, broken=st.booleans())
    def change_answer(self, which: int, *, broken: bool) -> None:
        """A stream breaks, or comes to where it can't be interrupted, or leaves it."""
        expected = self.one_that_runs(which)
        if broken:
            self.lose(expected)
        else:
            expected.shielded = not expected.shielded
            self.do("shield", expected.request.request_id, expected.shielded)

    def lose(self, expected: Expected) -> None:
        """An answer is lost by its server and waits to go on."""
        expected.losses += 1
        self.pause(expected.request.request_id, "lose")

    def at(self, place: int) -> ServerCapacity:
        """Return one of the servers as it is now."""
        server_id = self.capacities[place % len(self.capacities)].server_id
        return self.servers[server_id]
