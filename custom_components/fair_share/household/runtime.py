"""The running household: the one object behind a config entry."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, suppress

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.util.json import JsonObjectType

from ..admission.model import (
    ROOT_ID,
    Ending,
    RequestClass,
    RequestRecord,
    Settings,
    Workload,
)
from ..admission.queue import AdmissionQueue
from ..admission.scheduler import Scheduler
from ..admission.state import NodeState
from ..admission.status import NodeStatus, QueueStatus
from ..const import CONF_ACTIVITY_LOG, GUEST_ID
from ..engines.base import Delta, GenerationRequest
from .activity_lines import household_line
from .activity_log import ActivityLog
from .client_use import ClientUse
from .clock import HouseholdClock
from .events import EventHub
from .generation import Ask, Generator
from .identity import IdentityResolver
from .ledger import Ledger
from .measures import Measures
from .prefixes import PrefixMemory
from .quota_watch import QuotaWatch, Seen
from .registry import Registry, direct_id
from .servers import ServerPool
from .settings import settings_from
from .updates import UpdateHub
from .warm_up import WarmUp

type FairShareConfigEntry = ConfigEntry[Household]


class Household:
    """Members, devices, queue and servers of one home, wired together."""

    def __init__(self, hass: HomeAssistant, entry: FairShareConfigEntry) -> None:
        """Build everything from the entry; nothing runs yet."""
        self.hass = hass
        self.entry = entry
        self.registry = Registry(hass, entry)
        self.identity = IdentityResolver(hass, self.registry)
        self.ledger = Ledger(hass, entry.entry_id)
        self.client_use = ClientUse(hass, entry.entry_id)
        self.updates = UpdateHub(hass)
        self.events = EventHub(hass, self.registry)
        self._kept: dict[str, NodeState] = {}
        clock = HouseholdClock()
        scheduler = Scheduler(clock.wall(), settings=settings_from(entry.options))
        self.activity = ActivityLog(hass, entry.entry_id, self._describe)
        self.queue = AdmissionQueue(
            scheduler,
            clock,
            on_change=self._touch,
            on_record=self._note_record,
            on_ending=self._note_ending,
            on_preempted=self.events.note_preempted,
        )
        self.measures = Measures(self.queue, self.registry.member_ids)
        self.servers = ServerPool(hass, entry, self.queue, self._note_server)
        self._prefixes = PrefixMemory()
        self._generator = Generator(
            self.queue, self.servers, self.registry, self._prefixes
        )
        self.warm_up = WarmUp(
            hass, entry, self.queue, self._prefixes, self._generator.generate
        )

    async def async_setup(self) -> None:
        """Restore the accounts and start; servers may be away meanwhile.

        Raises ``HomeAssistantError`` if the accounts are there but can't be read.
        """
        state = await self.ledger.async_load()
        await self.client_use.async_load()
        self.client_use.follow(self.registry.clients)
        for node in self.registry.nodes():
            self.queue.put_node(node)
        if state is not None:
            self.queue.restore_state(state)
            self._kept = {node.node_id: node for node in state.nodes}
        self.measures.start()
        self.ledger.start(self.queue.export_state)
        self.activity.start(enabled=self._logs_activity)
        self.entry.async_on_unload(self.identity.async_listen())
        await self.servers.async_start()
        self.events.note_servers(self.servers.statuses(), first=True)
        # Before any sensor listens: what they show is measured then.
        self.entry.async_on_unload(
            self.updates.async_listen((ROOT_ID,), self._async_measure)
        )

    async def async_unload(self) -> None:
        """Refuse what waits, let go of the servers, write the accounts."""
        self.activity.prepare_stop()
        self.warm_up.async_stop()
        self.servers.stop()
        self.queue.close()
        self.events.async_stop()
        await self.ledger.async_stop()
        await self.client_use.async_stop()
        await self.activity.async_stop()

    async def async_apply(self) -> None:
        """Apply changed options and subentries without disturbing what runs."""
        change = self.registry.apply(self.entry)
        self.client_use.follow(self.registry.clients)
        self.queue.configure(settings_from(self.entry.options))
        for node in (*change.added, *change.changed):
            self.queue.put_node(node)
        for node_id in change.removed:
            self.queue.remove_node(node_id)
        self.servers.apply()
        self.activity.follow(enabled=self._logs_activity)
        self._touch((ROOT_ID, *(node.node_id for node in change.changed)))

    def generate(self, ask: Ask) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Open the stream of deltas that answers ``ask``; see ``Generator``."""
        self.warm_up.async_give_way()
        return self._generator.generate(ask)

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return a prompt's length in tokens, counted if a server can."""
        return await self._generator.count_tokens(request)

    @property
    def settings(self) -> Settings:
        """The rules that the queue follows."""
        return self.queue.settings

    def context_limit(self) -> int | None:
        """Return the longest context, in tokens, of the servers that are ready."""
        contexts = [
            capacity.context_tokens
            for server in self.servers.ready()
            if (capacity := server.capacity())
        ]
        return max(contexts, default=None)

    def node_status(self, node_id: str) -> NodeStatus:
        """Return the account of a node. Raises ``KeyError``."""
        return self.queue.node_status(node_id)

    def is_paused(self, node_id: str) -> bool:
        """Whether nothing of a node starts for now. Raises ``KeyError``."""
        paused = self.settings.paused_nodes
        return bool(paused) and not paused.isdisjoint(self.queue.path_ids(node_id))

    def owners(self, class_id: str) -> tuple[str, ...]:
        """Return whose a request class is, from the household down; of none if gone."""
        with suppress(KeyError):
            return self.queue.path_ids(class_id)
        return ()

    def tell_paused(self, node_ids: frozenset[str]) -> None:
        """Tell whoever shows these, and all below them, that they look different."""
        touched = set(node_ids)
        for node in self.registry.nodes():
            if node.parent_id in touched:
                touched.add(node.node_id)
        self.updates.touch(ROOT_ID, *touched)

    def is_over_quota(self, node_id: str) -> bool:
        """Whether a node's quota, or one above it, is used up. Raises ``KeyError``."""
        return any(
            self.node_status(each).window.remaining_tokens == 0
            for each in self.queue.path_ids(node_id)
        )

    def expected_wait_s(self, workload: Workload) -> float | None:
        """Return in about how many seconds one more request of a kind would start.

        ``None`` while no server is ready.
        """
        if not self.servers.ready():
            return None
        source_id = direct_id(GUEST_ID)
        leaf = RequestClass(f"{source_id}/{workload}", source_id, workload)
        self.queue.put_class(leaf)
        return self.queue.expected_wait_s(leaf.class_id)

    def quota_watch(self, node_id: str) -> QuotaWatch:
        """Return a watch on a node's quota that goes on where it was before a restart.

        Raises ``KeyError``.
        """
        window = self.node_status(node_id).window
        kept = self._kept.pop(node_id, None)
        return QuotaWatch(Seen.kept(kept, window) if kept else Seen.of(window))

    def status(self) -> QueueStatus:
        """Return a snapshot of the queue."""
        return self.queue.status()

    def records(self) -> tuple[RequestRecord, ...]:
        """Return the accounts of the latest requests, oldest first."""
        return tuple(self.queue.history)

    @property
    def _logs_activity(self) -> bool:
        return self.entry.options.get(CONF_ACTIVITY_LOG) is True

    def _describe(self) -> JsonObjectType:
        return household_line(
            self.settings, self.registry.nodes(), self.servers.capacities()
        )

    def _touch(self, node_ids: Iterable[str]) -> None:
        self.updates.touch(*node_ids)
        self.ledger.mark_dirty()

    def _touch_server(self, server_id: str) -> None:
        self.updates.touch(server_id, ROOT_ID)

    def _note_server(self, server_id: str) -> None:
        """Follow a server that came up, went away, or is as it was."""
        ready = {server.subentry.subentry_id: server for server in self.servers.ready()}
        capacity = ready[server_id].capacity() if server_id in ready else None
        if capacity is None:
            # Whatever it held, it may be started anew.
            self._prefixes.forget_server(server_id)
            self.warm_up.async_forget_server(server_id)
        elif self._prefixes.note_server(capacity):
            self.warm_up.async_look()
        self.events.note_servers(self.servers.statuses())
        self._touch_server(server_id)

    def _note_ending(self, ending: Ending) -> None:
        self.activity.note(ending)
        self.measures.note(ending)
        self.events.note_ending(ending)

    def _async_measure(self) -> None:
        if self.measures.look():
            self.updates.touch(ROOT_ID)

    def _note_record(self, record: RequestRecord) -> None:
        self.warm_up.async_look()
        if record.server_id is not None:
            self._touch_server(record.server_id)
