"""``scripts/bench NAME [--json]``."""

import argparse

from . import calibrate, household, placement, policies, scale, vtc, whatif, writes
from .corpus import command as corpus, record
from .fuzz import command as fuzz
from .gateway import command as gateway
from .live import command as live
from .overhead import command as overhead


def main() -> None:
    """Run the named benchmark."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    benchmarks = parser.add_subparsers(required=True, metavar="NAME")
    calibrate.add_to(benchmarks)
    corpus.add_to(benchmarks)
    fuzz.add_to(benchmarks)
    gateway.add_to(benchmarks)
    household.add_to(benchmarks)
    live.add_to(benchmarks)
    overhead.add_to(benchmarks)
    placement.add_to(benchmarks)
    policies.add_to(benchmarks)
    record.add_to(benchmarks)
    scale.add_to(benchmarks)
    vtc.add_to(benchmarks)
    whatif.add_to(benchmarks)
    writes.add_to(benchmarks)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
