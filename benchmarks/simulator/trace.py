"""A recorded trace as a workload."""

import csv
import json
from pathlib import Path

from .job import Job

_COLUMNS = ("arrival_s", "client", "input_tokens", "output_tokens")


def load_trace(path: Path) -> tuple[Job, ...]:
    """Read a trace, in order of arrival.

    Either a CSV file with the columns above, in which lines that begin with # are
    comments, or, named ``.jsonl``, a result file of the VTC artifact
    (``fair_bench/VTC/all_results_real.jsonl`` in its repository), in which every answer
    says when it was asked for. Raises ``ValueError`` on a CSV file of another form.
    """
    rows = _measured(path) if path.suffix == ".jsonl" else _listed(path)
    rows.sort()
    clients: dict[str, int] = {}
    return tuple(
        Job(
            job_id=f"{number}",
            client=clients.setdefault(client, len(clients)),
            arrival_s=arrival_s,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )
        for number, (arrival_s, client, prompt_tokens, output_tokens) in enumerate(rows)
    )


def _listed(path: Path) -> list[tuple[float, str, int, int]]:
    with path.open(newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        if tuple(rows.fieldnames or ()) != _COLUMNS:
            raise ValueError(f"a trace has the columns {', '.join(_COLUMNS)}: {path}")
        return [
            (
                float(row["arrival_s"]),
                row["client"],
                int(row["input_tokens"]),
                int(row["output_tokens"]),
            )
            for row in rows
        ]


def _measured(path: Path) -> list[tuple[float, str, int, int]]:
    with path.open() as file:
        result = json.loads(file.readline())["result"]
    return [
        (
            answer["req_time"],
            answer["adapter_dir"],
            answer["prompt_len"],
            answer["output_len"],
        )
        for answer in result["responses"]
    ]
