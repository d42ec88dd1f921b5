"""A Home Assistant of the demo's own: its configuration folder, its start, its stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
import fcntl
import json
import os
from pathlib import Path
import shutil
import sys

import aiohttp
from imageio_ffmpeg import get_ffmpeg_exe

from .errors import DemoError
from .ports import HOST, free_port

_DEMO = Path(__file__).resolve().parent
_INTEGRATION = _DEMO.parent / "custom_components" / "fair_share"
_START_LIMIT_S = 240.0
_STOP_LIMIT_S = 30.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class RunningHomeAssistant:
    """Where it listens, its process and its log."""

    url: str
    process: asyncio.subprocess.Process
    log: Path
    storage: Path


@asynccontextmanager
async def running_home_assistant(
    folder: Path, *, preferred_port: int = 0
) -> AsyncIterator[RunningHomeAssistant]:
    """Run Home Assistant with its configuration in this folder; stop it on leaving.

    What an earlier run left in the folder is used. Raises ``DemoError``.
    """
    config = config_folder(folder)
    log = folder / "home-assistant.log"
    port = free_port(preferred_port)
    _write_config(config, port)
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # only the configuration folder may say what custom_components is
            str(_DEMO / "home_assistant_process.py"),
            "--config",
            str(config),
            "--log-no-color",
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=_environment(),
            # Ctrl-C is for the demo alone, which then stops everything in order.
            start_new_session=True,
        )
    try:
        running = RunningHomeAssistant(
            f"http://{HOST}:{port}", process, log, config / ".storage"
        )
        await _wait_until_it_answers(running)
        yield running
    finally:
        await _stop(process)


def config_folder(folder: Path) -> Path:
    """Return where Home Assistant keeps what it has."""
    return folder / "home-assistant"


async def wait_until_unused(folder: Path) -> None:
    """Wait for the Home Assistant of a run that was killed, which is still stopping.

    Raises ``DemoError`` if it does not stop.
    """
    config = config_folder(folder)
    config.mkdir(parents=True, exist_ok=True)
    with (config / ".ha_run.lock").open("a") as lock:
        for _ in range(round(_STOP_LIMIT_S / _POLL_S)):
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            await asyncio.sleep(_POLL_S)
    raise DemoError(f"Another Home Assistant is running in {config}.")


def _write_config(config: Path, port: int) -> None:
    shutil.copytree(_DEMO / "config", config, dirs_exist_ok=True)
    link = config / "custom_components" / "fair_share"
    link.unlink(missing_ok=True)
    link.symlink_to(_INTEGRATION)
    storage = config / ".storage"
    storage.mkdir(exist_ok=True)
    # In YAML the port would be on trial for five minutes and then go back to 8123.
    (storage / "http").write_text(json.dumps(_http_storage(port)), encoding="utf-8")
    onboarding = storage / "onboarding"
    if not onboarding.exists():
        onboarding.write_text(json.dumps(_ONBOARDING), encoding="utf-8")


# The other steps than the first user would add integrations that need the internet.
_ONBOARDING = {
    "version": 4,
    "minor_version": 1,
    "key": "onboarding",
    "data": {"done": ["core_config", "analytics", "integration"]},
}


def _http_storage(port: int) -> dict[str, object]:
    stable = {
        "server_port": port,
        "server_host": [HOST],
        "cors_allowed_origins": ["https://cast.home-assistant.io"],
        "login_attempts_threshold": -1,
        "ip_ban_enabled": True,
        "ssl_profile": "modern",
        "use_x_frame_options": True,
        "created_at": "2026-01-01T00:00:00+00:00",
        "error": None,
        "error_message": None,
    }
    return {
        "version": 2,
        "minor_version": 2,
        "key": "http",
        "data": {"stable": stable, "pending": None, "yaml_migration_done": True},
    }


def _environment() -> dict[str, str]:
    environment = dict(os.environ)
    # Without bytecode every start would compile all of Home Assistant anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["FAIR_SHARE_DEMO_FFMPEG"] = get_ffmpeg_exe()
    return environment


async def _wait_until_it_answers(running: RunningHomeAssistant) -> None:
    answering = asyncio.create_task(_poll_login(running.url))
    ended = asyncio.create_task(running.process.wait())
    try:
        done, _ = await asyncio.wait(
            {answering, ended},
            timeout=_START_LIMIT_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        answering.cancel()
        ended.cancel()
    if answering in done:
        return
    problem = (
        f"ended with code {running.process.returncode} while starting"
        if ended in done
        else f"did not answer within {_START_LIMIT_S:.0f} s"
    )
    raise DemoError(f"Home Assistant {problem}.", log=running.log)


async def _poll_login(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(f"{url}/auth/providers") as response:
                    # 400: there is no user yet.
                    if response.status in (200, 400):
                        return
            await asyncio.sleep(_POLL_S)


async def _stop(process: asyncio.subprocess.Process) -> None:
    try:
        with suppress(ProcessLookupError, TimeoutError):
            process.terminate()
            await asyncio.wait_for(process.wait(), _STOP_LIMIT_S)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def errors_in(log: Path) -> list[str]:
    """Return the lines of Home Assistant's log that tell of an error."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    marks = (" ERROR (", " CRITICAL (", "Traceback (most recent call last)")
    return [line for line in lines if any(mark in line for mark in marks)]
