"""LiteLLM's proxy, installed on first use into an environment of its own.

Nothing of it calls home: telemetry is off, its price list is the one in the package,
and the only way out that it is given is a proxy that is not there.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
import json
import os
from pathlib import Path
import shutil
import sys
from tempfile import TemporaryDirectory

import aiohttp

from demo.ports import free_port

from .fake_engine import FAST, PACED

VERSION = "1.82.6"
"""Two releases right after this one held malicious code, a later one too: never take
just any."""

_NEWEST = "2026-03-23T00:00:00Z"
"""Nor anything that it needs from after its own days."""

_OVERRIDES = "uvloop>=0.22.1\n"
"""What it pins does not compile for this Python."""

_INSTALL_LIMIT_S = 600.0
_START_LIMIT_S = 180.0
_NOBODY = "http://127.0.0.1:9"


class ProxyMissingError(Exception):
    """LiteLLM's proxy could not be installed or started."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where it listens, and its process."""

    url: str
    pid: int


def cache_folder() -> Path:
    """Return the one folder outside of the checkout that is written to."""
    if named := os.environ.get("FAIR_SHARE_CACHE"):
        return Path(named)
    usual = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(usual) / "fair-share"


@asynccontextmanager
async def litellm_proxy(engine_url: str) -> AsyncIterator[Proxy]:
    """Run the proxy in front of an engine; its process is killed on leaving.

    Raises ``ProxyMissingError``.
    """
    python = await _installed()
    with TemporaryDirectory(prefix="fair-share-bench-") as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(json.dumps(_config(engine_url)))  # JSON is YAML
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            str(python.parent / "litellm"),
            *("--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
            *("--telemetry", "False", "--num_workers", "1"),
            cwd=folder,
            env=_environment(folder),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            await _wait_until_it_answers(process, url)
            yield Proxy(url, process.pid)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _installed() -> Path:
    """Install it if it is not there yet; return its Python."""
    folder = cache_folder() / f"litellm-{VERSION}"
    python = folder / "bin" / "python"
    complete = folder / "complete"
    if complete.exists():
        return python
    uv = shutil.which("uv", path=f"{cache_folder() / 'tools' / 'bin'}:{os.defpath}")
    uv = uv or shutil.which("uv")
    if uv is None:
        raise ProxyMissingError("uv, which scripts/setup installs, is not there")
    overrides = cache_folder() / "litellm-overrides.txt"
    overrides.write_text(_OVERRIDES)
    await _call(uv, "venv", "--clear", "--python", sys.executable, str(folder))
    install = ("pip", "install", "--python", str(python), "--override", str(overrides))
    await _call(uv, *install, "--exclude-newer", _NEWEST, f"litellm[proxy]=={VERSION}")
    complete.touch()
    return python


async def _call(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=os.environ | {"UV_CACHE_DIR": str(cache_folder() / "uv-cache")},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_INSTALL_LIMIT_S):
            _, said = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        last = said.decode(errors="replace").strip().splitlines()[-3:]
        raise ProxyMissingError(
            f"LiteLLM {VERSION} could not be installed: {' / '.join(last)}"
        )


def _config(engine_url: str) -> dict[str, object]:
    parameters = {"api_base": f"{engine_url}/v1", "api_key": "none"}
    return {
        "model_list": [
            {
                "model_name": name,
                "litellm_params": {"model": f"openai/{name}", **parameters},
            }
            for name in (FAST, PACED)
        ],
        "litellm_settings": {"telemetry": False, "num_retries": 0},
    }


def _environment(folder: str) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": folder,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "HTTP_PROXY": _NOBODY,
        "HTTPS_PROXY": _NOBODY,
        "NO_PROXY": "127.0.0.1",
    }


async def _wait_until_it_answers(process: asyncio.subprocess.Process, url: str) -> None:
    try:
        async with asyncio.timeout(_START_LIMIT_S), aiohttp.ClientSession() as session:
            while process.returncode is None:
                with suppress(aiohttp.ClientError):
                    async with session.get(f"{url}/health/liveliness") as answer:
                        if answer.ok:
                            return
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise ProxyMissingError("LiteLLM's proxy did not get ready") from None
    raise ProxyMissingError(f"LiteLLM's proxy ended with code {process.returncode}")
