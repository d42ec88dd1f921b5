"""Whom to interrupt for a waiting request, if anybody."""

from collections.abc import Iterable

from .entry import Entry
from .model import PreemptionRules
from .node import parting


def choose_victim(
    head: Entry,
    running: Iterable[Entry],
    *,
    rules: PreemptionRules,
    among_equals: bool,
    now: float,
) -> Entry | None:
    """Return the running request that should make room for ``head``, or ``None``.

    It has to be writing (a prompt that is being read can't be left at once), to have
    run a little, not to be nearly done, and not to have been interrupted too often.
    Its band after ageing has to be more patient than the head's or, between equals and
    only with ``among_equals``, its side of the tree has to be ahead of the head's by
    more than the threshold.
    Among those: the most patient, then whose side is furthest ahead, then whose
    listener has the most left to take in, then the cheapest to read again, then the
    newest. Where also readers may be interrupted, for a more urgent head, one of them
    comes before writers that are as patient: its prompt is what holds up the others.
    Who reads in slices comes first and may always be interrupted: it can be left when
    its slice ends, and loses nothing by it, also if its answer could not go on.
    """
    band = head.effective_band(now)
    best: Entry | None = None
    best_rank: tuple[float, ...] = ()
    for victim in running:
        its_band = victim.effective_band(now)
        if its_band < band or not may_stop(victim, rules, now):
            continue
        reads, sliced = not victim.run_output, victim.between_slices
        ours, theirs = parting(victim.path, head.leaf.path)
        lead = ours.counter - theirs.counter
        if its_band > band:
            # What has been sent only now can't be called back before it is there.
            allowed = not reads or (
                victim.started_s < now and (rules.while_reading or sliced)
            )
        else:
            allowed = (
                among_equals
                and (sliced or not reads)
                and lead > rules.threshold
                and victim.preemptions < rules.most_among_equals
            )
        rank = (its_band, reads, sliced, lead, *_gentleness(victim, now))
        if allowed and rank > best_rank:
            best, best_rank = victim, rank
    return best


def may_stop(victim: Entry, rules: PreemptionRules, now: float) -> bool:
    """Whether a running request may be interrupted at all."""
    paused_too_long = victim.paused_s >= victim.leaf.profile.max_pause_s
    return (
        (victim.request.preemptible or victim.between_slices)
        and victim.leaf.profile.preemptible
        and not victim.preempting
        and not victim.shielded
        and (not victim.run_output or victim.run_output >= rules.min_run_tokens)
        and (victim.between_slices or _may_stop_writing(victim, rules))
        and not (paused_too_long and victim.playback_slack_s(now) <= 0)
    )


def _may_stop_writing(victim: Entry, rules: PreemptionRules) -> bool:
    stopped = victim.preemptions - victim.preemptions_in_slices
    nearly_done = victim.expected_left() <= rules.nearly_done_tokens
    return not nearly_done and stopped < rules.most_per_request


def _gentleness(victim: Entry, now: float) -> tuple[float, float, float]:
    recompute = victim.request.prompt_tokens + victim.counted.output
    return victim.playback_slack_s(now), -recompute, victim.started_s
