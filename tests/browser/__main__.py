"""Looks at the demo's household in a real Chromium and takes pictures for the docs.

``scripts/screenshots`` runs it. It fails where a page shows an error or misses what it
should have, so it is the test of the dashboard in a browser as well.
"""

import argparse
import asyncio
from pathlib import Path
import site

from demo.running import running_demo
from demo.state import passing_folder


def main() -> None:
    """Take the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/screenshots")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--chromium", required=True, help="the browser's program")
    parser.add_argument("--playwright", required=True, help="where it is installed")
    arguments = parser.parse_args()
    # It is no part of the environment that everything else runs in.
    site.addsitedir(arguments.playwright)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(_take(arguments.folder, arguments.chromium))


async def _take(folder: Path, chromium: str) -> None:
    from .tour import tour  # noqa: PLC0415 - needs what was just made available

    with passing_folder() as state:
        async with running_demo(state, None) as demo:
            await tour(demo, folder, chromium)


if __name__ == "__main__":
    main()
