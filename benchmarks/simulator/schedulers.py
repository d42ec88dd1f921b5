"""The order inside the engine of the published measurements (VTC artifact).

Rules and prices as that code has them, also where they differ from the paper: a client
that comes back is lifted to the smallest counter among clients that wait, and not at
all when none does; when an answer ends, everything in the batch is charged once more.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence as Batch
from typing import Protocol

from .job import Sequence

INPUT_PRICE = 1
OUTPUT_PRICE = 2
_RATE_WINDOW_S = 60.0
_OLD_PREDICTION_SHARE = 4 / 5


class EngineScheduler(Protocol):
    """Decides which waiting sequence the engine admits next."""

    def append(self, sequence: Sequence, now: float) -> bool:
        """Take a sequence in; ``False`` when it is refused."""
        ...

    def head(self) -> Sequence | None:
        """Return the sequence that is next; nothing may pass it."""
        ...

    def admitted(self) -> None:
        """Take the head out and charge its prompt."""
        ...

    def charge(self, batch: Batch[Sequence]) -> None:
        """Charge a token of each sequence of the batch."""
        ...

    def counter_gap(self) -> float | None:
        """Return how far the counters of waiting clients are apart now."""
        ...


class FirstComeFirstServed:
    """FCFS: one queue, no counters."""

    def __init__(self) -> None:
        """Start empty."""
        self._queue: deque[Sequence] = deque()

    def append(self, sequence: Sequence, now: float) -> bool:  # noqa: ARG002 - protocol
        """Take a sequence in."""
        self._queue.append(sequence)
        return True

    def head(self) -> Sequence | None:
        """Return the oldest sequence."""
        return self._queue[0] if self._queue else None

    def admitted(self) -> None:
        """Take the head out."""
        self._queue.popleft()

    def charge(self, batch: Batch[Sequence]) -> None:
        """Charge nothing."""

    def counter_gap(self) -> None:
        """There are no counters."""
        return


class RequestsPerMinute(FirstComeFirstServed):
    """RPM(n): FCFS, but a client that was let in n times in 60 s is refused."""

    def __init__(self, limit: int) -> None:
        """Start empty."""
        super().__init__()
        self._limit = limit
        self._accepted_s: dict[int, deque[float]] = {}

    def append(self, sequence: Sequence, now: float) -> bool:
        """Take a sequence in; ``False`` when its client has had its share."""
        accepted_s = self._accepted_s.setdefault(sequence.job.client, deque())
        while accepted_s and now - accepted_s[0] > _RATE_WINDOW_S:
            accepted_s.popleft()
        if len(accepted_s) >= self._limit:
            return False
        accepted_s.append(now)
        return super().append(sequence, now)


class Predictor(Protocol):
    """Predicts how long an answer gets; as much is paid in advance."""

    def predict(self, sequence: Sequence) -> float:
        """Return the expected output in tokens."""
        ...

    def observe(self, sequence: Sequence) -> None:
        """Learn from an answer that ended."""
        ...


class NothingInAdvance:
    """VTC itself: output is paid as it comes."""

    def predict(self, sequence: Sequence) -> float:  # noqa: ARG002 - protocol
        """Return nothing."""
        return 0.0

    def observe(self, sequence: Sequence) -> None:
        """Learn nothing."""


class MovingAverage:
    """VTC(predict): per client, four parts the old prediction, one the last answer."""

    def __init__(self) -> None:
        """Start without any observation."""
        self._expected: dict[int, float] = {}

    def predict(self, sequence: Sequence) -> float:
        """Return the moving average, 0 for a client without finished answers."""
        return self._expected.get(sequence.job.client, 0.0)

    def observe(self, sequence: Sequence) -> None:
        """Learn from an answer that ended."""
        client, last = sequence.job.client, float(sequence.produced)
        if old := self._expected.get(client):
            last = old * _OLD_PREDICTION_SHARE + last * (1 - _OLD_PREDICTION_SHARE)
        self._expected[client] = last


class Oracle:
    """VTC(oracle): the true length, or a random one up to ``error`` away from it."""

    def __init__(self, error: float, draw: Callable[[float, float], float]) -> None:
        """Predict with a relative error; ``draw`` picks a number between two."""
        self._error = error
        self._draw = draw

    def predict(self, sequence: Sequence) -> float:
        """Return the length within the error."""
        output = sequence.job.output_tokens
        return self._draw(output * (1 - self._error), output * (1 + self._error))

    def observe(self, sequence: Sequence) -> None:
        """Learn nothing."""


class LeastCounterFirst:
    """One queue and one counter for each client; the smallest counter is served.

    With ``lift`` this is VTC, without it LCF: whoever was away then has a right to
    everything missed.
    """

    def __init__(
        self, *, lift: bool, predictor: Predictor, weights: Mapping[int, float]
    ) -> None:
        """Start empty; a client without weight has 1."""
        self._lift = lift
        self._predictor = predictor
        self._weights = weights
        self._counters: dict[int, float] = {}
        self._queues: dict[int, deque[Sequence]] = {}

    def append(self, sequence: Sequence, now: float) -> bool:  # noqa: ARG002 - protocol
        """Take a sequence in; its client may be lifted."""
        client = sequence.job.client
        queue = self._queues.setdefault(client, deque())
        counter = self._counters.setdefault(client, 0.0)
        others = [self._counters[other] for other in self._waiting_clients()]
        if self._lift and not queue and others:
            self._counters[client] = max(counter, min(others))
        queue.append(sequence)
        return True

    def head(self) -> Sequence | None:
        """Return the oldest sequence of the client with the smallest counter."""
        client = self._next_client()
        return None if client is None else self._queues[client][0]

    def admitted(self) -> None:
        """Take the head out and charge its prompt and the predicted output."""
        client = self._next_client()
        assert client is not None  # noqa: S101 - there is a head
        sequence = self._queues[client].popleft()
        sequence.predicted_output = self._predictor.predict(sequence)
        self._book(
            client,
            sequence.prompt_tokens * INPUT_PRICE
            + sequence.predicted_output * OUTPUT_PRICE,
        )

    def charge(self, batch: Batch[Sequence]) -> None:
        """Charge a token of each sequence that is past its prediction; refund."""
        for sequence in batch:
            client = sequence.job.client
            if sequence.produced > sequence.predicted_output:
                self._book(client, OUTPUT_PRICE)
            if sequence.ended:
                unused = max(sequence.predicted_output - sequence.produced, 0.0)
                self._book(client, -unused * OUTPUT_PRICE)
                self._predictor.observe(sequence)

    def counter_gap(self) -> float:
        """Return how far the counters of waiting clients are apart now."""
        counters = [self._counters[client] for client in self._waiting_clients()]
        return max(counters, default=0.0) - min(counters, default=0.0)

    def _waiting_clients(self) -> list[int]:
        return [client for client, queue in self._queues.items() if queue]

    def _next_client(self) -> int | None:
        return min(
            self._waiting_clients(), key=self._counters.__getitem__, default=None
        )

    def _book(self, client: int, charge: float) -> None:
        self._counters[client] += charge / self._weights.get(client, 1.0)
