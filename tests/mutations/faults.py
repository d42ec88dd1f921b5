"""The faults: one change of one place each, and the tests that should notice it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the queue.

    ``file`` is where in ``admission/`` the text ``old``, which is there just once,
    becomes ``new``. ``tests`` are the tests in ``tests/admission`` that are tried, in
    this order.
    """

    meaning: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


QUEUE, MEMORY, QUOTA = "test_scheduler.py", "test_memory.py", "test_quota.py"
FAIRNESS, PREEMPTION, ENDS = (
    "test_fairness.py",
    "test_preemption.py",
    "test_quota_ends.py",
)
POLICIES, RESERVE, KEPT = "test_policies.py", "test_reserve.py", "test_kept.py"
NEWCOMERS, FOREIGN = "test_newcomers.py", "test_foreign.py"
PLACEMENT, CONCURRENCY = "test_placement.py", "test_concurrency.py"
PLAIN, MIXED = (
    f"invariants/test_households.py::Test{kind}Household" for kind in ("Plain", "Mixed")
)

_BOOK = """\
        for node in entry.path:
            node.charge += delta
"""
_NO_REFUND = """\
        entry.prompt = TokenCount(entry.counted.uncached, entry.counted.cached)
        entry.prepaid_output = 0
"""

FAULTS = (
    # Who shares with whom
    Fault(
        "who comes back is not lifted",
        "node.py",
        "self.shift(max(0.0, self.parent.virtual_time - self.counter))",
        "self.shift(0.0)",
        (NEWCOMERS,),
    ),
    Fault(
        "who comes back is lifted only when nothing of it runs",
        "tree.py",
        "                if lift:\n",
        "                if lift and node.running == 0:\n",
        (NEWCOMERS, PLAIN),
    ),
    Fault(
        "who comes back is lifted to whoever got the most",
        "node.py",
        "max(0.0, self.parent.virtual_time - self.counter)",
        "max(each.counter for each in self.parent.children.values()) - self.counter",
        (NEWCOMERS,),
    ),
    Fault(
        "virtual time follows whoever got the most",
        "tree.py",
        "lowest = min(levels, default",
        "lowest = max(levels, default",
        (NEWCOMERS,),
    ),
    Fault(
        "virtual time goes back",
        "tree.py",
        "node.virtual_time = max(node.virtual_time, lowest)",
        "node.virtual_time = lowest",
        (NEWCOMERS,),
    ),
    Fault(
        "virtual time follows what is paid in advance",
        "tree.py",
        "                child.delivered\n",
        "                child.counter\n",
        (NEWCOMERS,),
    ),
    Fault(
        "weights are ignored",
        "accounts.py",
        "node.counter += delta / node.weight",
        "node.counter += delta",
        (FAIRNESS,),
    ),
    Fault(
        "what is paid in advance keeps an old weight",
        "node.py",
        "self.counter = self.delivered + ahead / weight",
        "self.counter = self.delivered + ahead",
        (NEWCOMERS,),
    ),
    # Charges
    Fault(
        "everything is charged twice",
        "accounts.py",
        "node.charge += delta",
        "node.charge += 2 * delta",
        (QUEUE,),
    ),
    Fault(
        "the counter moves twice as far as the charge",
        "accounts.py",
        "node.counter += delta / node.weight",
        "node.counter += 2 * delta / node.weight",
        (QUEUE,),
    ),
    Fault(
        "what was not delivered is not refunded",
        "accounts.py",
        _NO_REFUND,
        _NO_REFUND.splitlines(keepends=True)[0],
        (QUEUE,),
    ),
    Fault(
        "refunds go to the household alone",
        "accounts.py",
        _BOOK,
        _BOOK.replace("entry.path:", "entry.path if delta > 0 else entry.path[:1]:"),
        (QUEUE,),
    ),
    Fault(
        "cached prompt tokens cost the full price",
        "model.py",
        "self.cached_prompt * cached",
        "self.uncached_prompt * cached",
        (QUEUE,),
    ),
    Fault(
        "the interrupted pays for reading its prompt again",
        "accounts.py",
        """\
        if entry.reads_again:
            self._recompute(entry, TokenCount(uncached + again, cached))
        else:
""",
        "        if True:\n",
        (PREEMPTION,),
    ),
    Fault(
        "a prompt whose reading was interrupted is never paid",
        "accounts.py",
        "            self._read_in_vain(entry)\n",
        "            entry.reads_again = entry.resumed\n",
        (PREEMPTION,),
    ),
    Fault(
        "what is in flight is never less",
        "board.py",
        "        self.in_flight_cost -= entry.in_flight_cost\n",
        "",
        (PLAIN,),
    ),
    # Order
    Fault(
        "the last of a class goes before the first",
        "selection.py",
        "return [leaf.head for leaf in waiting if leaf.head]",
        "return [list(leaf.queue.values())[-1] for leaf in waiting]",
        (QUEUE,),
    ),
    Fault(
        "waiting makes less urgent",
        "entry.py",
        "return max(0, band - int(waited // profile.age_step_s))",
        "return max(0, band + int(waited // profile.age_step_s))",
        (QUEUE,),
    ),
    Fault(
        "nothing is ever overdue",
        "selection.py",
        "if head.overdue_s <= now:",
        "if head.overdue_s > inf:",
        (QUEUE,),
    ),
    Fault(
        "the overdue hold up everything else",
        "selection.py",
        "self._last_was_overdue = choice.rule is Rule.OVERDUE",
        "self._last_was_overdue = False",
        (QUEUE,),
    ),
    Fault(
        "the latest deadline goes first among the overdue",
        "selection.py",
        "key=lambda head: (head.overdue_s, head.sequence)",
        "key=lambda head: (-head.overdue_s, head.sequence)",
        (QUEUE,),
    ),
    Fault(
        "background work is owed nothing",
        "reserve.py",
        "owed = self.owed + delta * self.share / (1 - self.share)",
        "owed = self.owed",
        (RESERVE,),
    ),
    Fault(
        "what background work gets pays nothing off",
        "reserve.py",
        "            self.owed -= paid\n",
        "",
        (RESERVE,),
    ),
    Fault(
        "who has waited the shortest is next under equal waiting",
        "policies.py",
        "return (-node.weight * (wait + excess),)",
        "return (node.weight * (wait + excess),)",
        (POLICIES,),
    ),
    Fault(
        "who is late anyway comes later and later",
        "policies.py",
        "- max(late, 0.0)",
        "+ max(late, 0.0)",
        (POLICIES,),
    ),
    Fault(
        "who missed the first word's target stays first",
        "policies.py",
        "feasible = [spare for spare in slack if spare >= 0]",
        "feasible = slack",
        (POLICIES,),
    ),
    # What is kept
    Fault(
        "how urgent the next of a class is stays as it was",
        "node.py",
        "            self.head.judged_until_s = -inf\n",
        "            pass\n",
        (KEPT,),
    ),
    Fault(
        "new rules of urgency hold only for who comes later",
        "scheduler.py",
        "            entry.judged_until_s = -inf\n",
        "            pass\n",
        (PLAIN,),
    ),
    Fault(
        "waiting background work is counted only up",
        "board.py",
        "        self._background_waiting -= "
        "entry.leaf.workload is Workload.BACKGROUND\n",
        "",
        (RESERVE, MIXED),
    ),
    Fault(
        "a server that can't be reached stays among the hosts",
        "scheduler.py",
        "            server.usable = False\n        self._board.note_servers(now)\n",
        "            server.usable = False\n",
        (QUEUE,),
    ),
    # Servers and memory
    Fault(
        "memory is planned without the newcomer",
        "servers.py",
        "self._peak([*self._growths(), newcomer])",
        "self._peak([*self._growths()])",
        (QUEUE, MEMORY),
    ),
    Fault(
        "an exhausted pool makes the queue plan with more",
        "servers.py",
        "self._commit(times * _PER_EXHAUSTION)",
        "self._commit(-times * _PER_EXHAUSTION)",
        (MEMORY,),
    ),
    Fault(
        "a blocked request may be overtaken without limit",
        "servers.py",
        "return ours.counter + cost / ours.weight - theirs.counter"
        " <= blocked.allowance",
        "return True",
        (QUEUE, MEMORY),
    ),
    Fault(
        "also an overdue request may be overtaken",
        "starts.py",
        "allowance = -inf if overdue else self._settings.bypass",
        "allowance = self._settings.bypass",
        (MEMORY,),
    ),
    Fault(
        "a slot is freed twice",
        "scheduler.py",
        "if server is not None and server.held_slots:",
        "if server is not None:",
        (QUEUE,),
    ),
    Fault(
        "a slot is never freed",
        "board.py",
        "server.running.pop(entry.request.request_id)",
        "server.running.get(entry.request.request_id)",
        (QUEUE,),
    ),
    Fault(
        "one more may run than a limit allows",
        "node.py",
        "self.running >= self.caps.in_flight",
        "self.running > self.caps.in_flight",
        (QUEUE,),
    ),
    # Quotas
    Fault(
        "output is not taken off a quota",
        "node.py",
        "self.window.count(uncached + output)",
        "self.window.count(uncached)",
        (QUEUE, QUOTA),
    ),
    Fault(
        "a used-up quota stops no answer",
        "accounts.py",
        "return Verdict.STOP_QUOTA if stopped else Verdict.CONTINUE",
        "return Verdict.CONTINUE",
        (QUEUE,),
    ),
    Fault(
        "a new day begins a day late",
        "quota.py",
        "if wall >= self.ends_at:",
        "if wall >= self.ends_at + timedelta(days=1):",
        (QUOTA,),
    ),
    Fault(
        "a quota is refilled at half its rate",
        "quota.py",
        "self.level - passed * self.refill_per_s",
        "self.level - passed * self.refill_per_s / 2",
        (ENDS,),
    ),
    # Interruptions
    Fault(
        "also the nearly done are interrupted",
        "preemption.py",
        "return not nearly_done and stopped < rules.most_per_request",
        "return stopped < rules.most_per_request",
        (PREEMPTION,),
    ),
    Fault(
        "the interrupted go to the back of their class",
        "scheduler.py",
        "self._board.enqueue(entry, front=True, lift=False)",
        "self._board.enqueue(entry, front=False, lift=False)",
        (PREEMPTION,),
    ),
    Fault(
        "the interrupted are lifted as if they had been away",
        "scheduler.py",
        "self._board.enqueue(entry, front=True, lift=False)",
        "self._board.enqueue(entry, front=True, lift=True)",
        (PREEMPTION,),
    ),
    Fault(
        "one answer is interrupted again and again",
        "preemption.py",
        "return not nearly_done and stopped < rules.most_per_request",
        "return not nearly_done",
        (PREEMPTION,),
    ),
    Fault(
        "equals interrupt each other for any lead",
        "preemption.py",
        "and lead > rules.threshold",
        "and lead > 0",
        (PREEMPTION,),
    ),
    Fault(
        "an answer is interrupted where it can't be",
        "preemption.py",
        "        and not victim.shielded\n",
        "",
        (PREEMPTION,),
    ),
    Fault(
        "who has the least left to hear is interrupted first",
        "preemption.py",
        "return victim.playback_slack_s(now), -recompute",
        "return -victim.playback_slack_s(now), -recompute",
        (PREEMPTION,),
    ),
    # Several servers, and how much at once
    Fault(
        "what runs past the queue takes no slot",
        "servers.py",
        "return len(self.running) + self.foreign_running",
        "return len(self.running)",
        (FOREIGN,),
    ),
    Fault(
        "what runs past the queue takes no memory",
        "servers.py",
        "room = pool * self.commitment - self.foreign_tokens",
        "room = pool * self.commitment",
        (FOREIGN,),
    ),
    Fault(
        "a server that came back gets all at once",
        "servers.py",
        "self.trusted = self.trusted and self.usable",
        "self.trusted = True",
        (PLACEMENT,),
    ),
    Fault(
        "what is being read on a server is left out",
        "placement.py",
        "return reading_s + _service_s(entry, server, server.in_flight() + 1)",
        "return _service_s(entry, server, server.in_flight() + 1)",
        (PLACEMENT,),
    ),
    Fault(
        "a server is left for one that is hardly faster",
        "placement.py",
        "_CLEARLY_SOONER = 0.8",
        "_CLEARLY_SOONER = 1.0",
        (PLACEMENT,),
    ),
    Fault(
        "also the overdue wait for a better server",
        "placement.py",
        " or entry.overdue_s <= now:",
        ":",
        (PLACEMENT,),
    ),
    Fault(
        "all are told to wait for the same place",
        "placement.py",
        "self._promised_s[better] = promised_s + share_s",
        "self._promised_s[better] = promised_s",
        (PLACEMENT,),
    ),
    Fault(
        "an answer moves whatever that costs",
        "placement.py",
        "if saving_s <= _WORTH_MOVING * cost_s or",
        "if",
        (PLACEMENT,),
    ),
    Fault(
        "an answer that moves goes back to where it was",
        "entry.py",
        "preferred_server=self.moves_to or self.ran_on",
        "preferred_server=self.ran_on",
        (PLACEMENT,),
    ),
    Fault(
        "urgent work does not count among what is in flight",
        "servers.py",
        "self.in_flight() + more <= max(limit, 1)",
        "more <= max(limit, 1)",
        (CONCURRENCY,),
    ),
    Fault(
        "answers are interrupted for work that does not pay",
        "starts.py",
        "may_replace = replacing_pays if entry.is_patient(now) else full",
        "may_replace = True",
        (CONCURRENCY,),
    ),
    Fault(
        "what did not pay once is never tried again",
        "concurrency.py",
        "return paying if self._levels[higher].fresh else higher",
        "return paying",
        (CONCURRENCY,),
    ),
    Fault(
        "what spans several numbers of requests teaches too",
        "concurrency.py",
        "if self._foreign or own_s < _PURE * (own_s + mixed_s):",
        "if self._foreign:",
        (CONCURRENCY,),
    ),
    Fault(
        "the work of many is counted as that of one",
        "concurrency.py",
        "return requests * (level.prompt",
        "return (level.prompt",
        (CONCURRENCY,),
    ),
)
