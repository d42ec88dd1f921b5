"""Measure a real server, so that the simulator is as fast as it is.

Asks the server for prompts of several lengths and for answers side by side, for less
than two minutes, and fits the step times of ``simulator/profile.py`` to it. The file
that it writes is what ``--profile`` of the other benchmarks takes. Nobody else should
use the server meanwhile.
"""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
import json
from pathlib import Path
import sys
from time import monotonic
from typing import Any

import aiohttp

from custom_components.fair_share.engines.base import Capabilities, EngineError
from custom_components.fair_share.engines.probe import find_server

from .measuring import Measured, Measurement
from .simulator.fit import Fit, Fitted, fit_profile, largest_error, mean_error
from .terminal import Progress

_LIMIT_S = 110.0
_USUAL_STREAMS = 4
_MOST_STREAMS = 64


class NotMeasuredError(Exception):
    """The server could not be measured, for a reason that a person understands."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a run found out."""

    capabilities: Capabilities
    streams: int
    measured: Measured
    fit: Fit
    took_s: float


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("calibrate", help=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, metavar="URL", help="its address")
    parser.add_argument("--key", help="its API key, if it wants one")
    parser.add_argument("--model", help="by default the server's first")
    parser.add_argument(
        "--streams",
        type=int,
        help="answers side by side at most; by default as many as it has slots, "
        f"{_USUAL_STREAMS} if it does not tell",
    )
    parser.add_argument(
        "--batch",
        type=int,
        help="tokens of a prompt it reads in one step; by default as it reports",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=_LIMIT_S,
        help=f"how long to measure at most, {_LIMIT_S:.0f} if not given",
    )
    parser.add_argument("--out", type=Path, help="write the profile to this file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Measure, fit, print and write."""
    for name in ("streams", "batch", "seconds"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            arguments.parser.error(f"--{name} has to be more than 0")
    try:
        with Progress("calibrate") as progress:
            calibration = asyncio.run(calibrate(arguments, progress.tell))
        if arguments.out:
            profile = asdict(calibration.fit.profile)
            arguments.out.write_text(json.dumps(profile, indent=2) + "\n")
    except (NotMeasuredError, OSError) as err:
        sys.exit(f"calibrate: {err}")
    if arguments.json:
        print(json.dumps(_as_json(calibration)))
    else:
        _print(calibration, arguments.out)


async def calibrate(
    arguments: argparse.Namespace, tell: Callable[[str], None]
) -> Calibration:
    """Measure a server and fit a profile. Raises ``NotMeasuredError``."""
    started_s = monotonic()
    async with aiohttp.ClientSession() as session:
        try:
            async with asyncio.timeout(arguments.seconds):
                found = await find_server(
                    session, arguments.server, arguments.key, model=arguments.model
                )
                running = (await found.engine.load()).running
        except TimeoutError:
            raise NotMeasuredError("the server does not answer in time") from None
        except EngineError as err:
            raise NotMeasuredError(f"no server to measure: {err}") from err
        if running:
            raise NotMeasuredError(
                f"the server works for somebody else ({running} requests run); "
                "measure it when it is idle"
            )
        capabilities = found.capabilities
        streams = arguments.streams or capabilities.slots or _USUAL_STREAMS
        streams = min(streams, capabilities.slots or streams, _MOST_STREAMS)
        measurement = Measurement(
            found.engine,
            capabilities,
            streams=streams,
            limit_s=arguments.seconds,
            tell=tell,
        )
        try:
            measured = await measurement.run()
        except EngineError as err:
            raise NotMeasuredError(f"the server failed meanwhile: {err}") from err
    if arguments.batch:
        measured.batch_tokens = arguments.batch
    if not measured.prefill or not measured.decode:
        raise NotMeasuredError(
            f"{arguments.seconds:.0f} s are too short for this server: "
            f"{len(measured.prefill)} prompts and {len(measured.decode)} sets of "
            "answers were measured; give it more --seconds"
        )
    fit = fit_profile(measured.prefill, measured.decode, measured.batch_tokens)
    return Calibration(capabilities, streams, measured, fit, monotonic() - started_s)


def _as_json(calibration: Calibration) -> dict[str, Any]:
    fit, measured = calibration.fit, calibration.measured
    capabilities = calibration.capabilities
    return {
        "profile": asdict(fit.profile),
        "server": {
            "kind": capabilities.kind.value,
            "model": capabilities.model,
            "slots": capabilities.slots,
            "context_tokens": capabilities.context_tokens,
            "kv_tokens": capabilities.kv_tokens,
            "batch_tokens": measured.batch_tokens,
        },
        "prefill": _samples(measured.prefill, fit.prefill),
        "decode": _samples(measured.decode, fit.decode),
        "errors": {
            "prefill_mean": mean_error(fit.prefill),
            "prefill_max": largest_error(fit.prefill),
            "decode_mean": mean_error(fit.decode),
            "decode_max": largest_error(fit.decode),
        },
        "out_of_time": measured.out_of_time,
        "seconds": round(calibration.took_s, 1),
    }


def _samples(samples: Sequence[Any], fitted: Sequence[Fitted]) -> list[dict[str, Any]]:
    return [
        {**asdict(sample), "fitted_s": each.fitted_s, "error": each.error}
        for sample, each in zip(samples, fitted, strict=True)
    ]


def _print(calibration: Calibration, out: Path | None) -> None:
    fit, measured = calibration.fit, calibration.measured
    batch = measured.batch_tokens or "not told"
    print(
        f"{calibration.capabilities.model}: {calibration.streams} streams, "
        f"tokens of a prompt in one step: {batch}, {calibration.took_s:.0f} s"
    )
    print(f"{'prompt tokens':>16}{'measured s':>12}{'fitted s':>10}{'error':>8}")
    for prompt, fitted in zip(measured.prefill, fit.prefill, strict=True):
        print(f"{prompt.tokens:>16}{_times(fitted, 1, 3)}")
    print(
        f"{'streams':>8}{'context':>8}{'measured ms':>12}{'fitted ms':>10}{'error':>8}"
    )
    for answers, fitted in zip(measured.decode, fit.decode, strict=True):
        head = f"{answers.streams:>8}{answers.context_tokens:>8.0f}"
        print(f"{head}{_times(fitted, 1000, 2)}")
    if measured.out_of_time:
        print("The time was not enough for all of it; more --seconds fit better.")
    for name, value in asdict(fit.profile).items():
        print(f"{name:>24} {value:.3g}")
    if out:
        print(f"written to {out}")


def _times(fitted: Fitted, scale: float, digits: int) -> str:
    measured, said = fitted.measured_s * scale, fitted.fitted_s * scale
    return f"{measured:>12.{digits}f}{said:>10.{digits}f}{fitted.error:>8.1%}"
