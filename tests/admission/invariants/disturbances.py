"""What else happens in a household: to its clocks, rules, members and servers."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    Caps,
    CostWeights,
    Limits,
    NodeSpec,
    Outcome,
    PreemptionRules,
    ServerCapacity,
)
from custom_components.fair_share.admission.policies import OFFERED

from .requests import MEMBERS, QUOTAS, SOURCES, WEIGHTS, Requests

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

    @rule(seconds=st.one_of(st.floats(0, 20), st.floats(0, 400)))
    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.do("pass_time", seconds)

    @rule(hours=st.sampled_from((-30, -0.01, 0.01, 13, 26)))
    def step_clock(self, hours: float) -> None:
        """Somebody sets the wall clock."""
        self.do("step_clock", hours)

    @rule(member=st.sampled_from(MEMBERS), tokens=st.integers(1, 500))
    def grant(self, member: str, tokens: int) -> None:
        """A parent grants tokens for today."""
        self.do("grant", member, tokens)

    @rule(member=st.sampled_from(MEMBERS), weight=st.sampled_from(WEIGHTS))
    def weigh_member(self, member: str, weight: float) -> None:
        """Somebody is to get more than the others, or less."""
        self.change_node(replace(self.specs[member], weight=weight))

    @rule(
        member=st.sampled_from(MEMBERS),
        source=st.sampled_from(SOURCES),
        weight=st.sampled_from(WEIGHTS),
        caps=st.sampled_from(IN_FLIGHT),
    )
    def change_source(
        self, member: str, source: str, weight: float, caps: Caps
    ) -> None:
        """A device is to get more of its member's share, or has a limit."""
        spec = self.specs[f"{member}/{source}"]
        self.change_node(replace(spec, weight=weight, caps=caps))

    @rule(quota=st.integers(0, len(QUOTAS) - 1), caps=st.sampled_from(IN_FLIGHT))
    def limit_member(self, quota: int, caps: Caps) -> None:
        """A member gets other limits."""
        limit = self.quotas[quota % len(self.quotas)]
        self.change_node(replace(self.specs[MEMBERS[0]], quota=limit, caps=caps))

    def change_node(self, spec: NodeSpec) -> None:
        """Put a node again with something changed."""
        self.do("put_node", spec)

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

    @rule(place=st.integers(0, 1), times=st.integers(1, 5))
    def run_out_of_memory(self, place: int, times: int) -> None:
        """An engine had to make room by itself."""
        self.do("note_exhausted", self.at(place).server_id, times)

    @rule(place=st.integers(0, 1), size=st.integers(0, 2))
    def change_server(self, place: int, size: int) -> None:
        """A server comes back, or was started with other options."""
        known = self.at(place)
        slots = self.slots[size % len(self.slots)]
        self.do("put_server", replace(known, slots=slots))

    @rule(place=st.integers(0, 1))
    def close_server(self, place: int) -> None:
        """A server can't be reached; what runs there has not noticed."""
        self.do("close_server", self.at(place).server_id)

    @rule(place=st.integers(0, 1), kept=st.booleans())
    def crash_server(self, place: int, *, kept: bool) -> None:
        """A server fails; what ran there goes on elsewhere, or fails with it."""
        server_id = self.at(place).server_id
        self.do("close_server", server_id)
        for request_id in sorted(self.running):
            expected = self.known[request_id]
            if expected.server_id == server_id and kept:
                expected.losses += 1
                self.pause(request_id, "lose")
            elif expected.server_id == server_id:
                self.end(expected, Outcome.FAILED, None)

    @rule(request_id=Requests.requests)
    def lose_one(self, request_id: str) -> None:
        """The stream of one answer breaks while its server goes on."""
        if request_id in self.running:
            self.known[request_id].losses += 1
            self.pause(request_id, "lose")

    @rule(request_id=Requests.requests)
    def shield(self, request_id: str) -> None:
        """An answer comes to a place where it can't be interrupted, or leaves it."""
        if request_id in self.running:
            expected = self.known[request_id]
            expected.shielded = not expected.shielded
            self.do("shield", request_id, expected.shielded)

    @rule(place=st.integers(0, 1))
    def hold_slot(self, place: int) -> None:
        """A slot stays busy after its request has left it, or is free at last."""
        server_id = self.at(place).server_id
        if self.held[server_id]:
            self.held[server_id] -= 1
            self.do("free_slot", server_id)
        else:
            self.held[server_id] += 1
            self.do("hold_slot", server_id)

    def at(self, place: int) -> ServerCapacity:
        """Return one of the servers as it is now."""
        server_id = self.capacities[place % len(self.capacities)].server_id
        return self.servers[server_id]
