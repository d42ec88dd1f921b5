"""A real vLLM on the processor with a tiny model, as ``scripts/vllm`` installs it.

From a shell, until interrupted; prints the address once it is ready::

    scripts/vllm --port 8000 --slots 2 --context 2048 [--priority] [--reasoning]

From Python::

    async with vllm_engine(slots=2, context_tokens=2048) as engine:
        ... engine.url, engine.pid ...

It writes at most a hundred tokens a second in each answer, see ``vllm_pace``.

A start takes one to five minutes. vLLM is three processes; when the first one dies the
others may go on for ever, so all of them are killed as one group.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
import os
from pathlib import Path

from .embedded_engine import EmbeddedEngine, EngineMissingError
from .guarded import guarded_server
from .ports import HOST, free_port

MODEL_NAME = "tiny"
BLOCK_TOKENS = 32
"""The smallest block that vLLM takes on the processor; it keeps whole blocks only."""

_START_LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """How a vLLM is started.

    ``slots``: sequences at once. ``context_tokens``: the most of one of them.
    ``kv_tokens``: of all together, in whole blocks. ``priority``: serves by the field
    ``priority``. ``reasoning``: takes what comes before ``</think>`` for reasoning.
    ``queued``: refuses requests while so many wait. ``template``: a file with another
    chat template than the model's own. ``paced``: no answer is written faster than 100
    tokens a second.
    """

    slots: int = 2
    context_tokens: int = 2048
    kv_tokens: int = 8192
    priority: bool = False
    reasoning: bool = False
    queued: int | None = None
    template: Path | None = None
    paced: bool = False


def folder() -> Path:
    """Return the folder that ``scripts/vllm`` installs into."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = os.environ.get("FAIR_SHARE_CACHE") or Path(home, "fair-share")
    return Path(cache, "vllm")


def find_vllm() -> Path:
    """Return the Python that has vLLM. Raises ``EngineMissingError``."""
    if not (folder() / "installed").exists():
        raise EngineMissingError("no vLLM is installed (scripts/vllm install)")
    return folder() / "venv" / "bin" / "python"


@asynccontextmanager
async def vllm_engine(
    options: VllmOptions | None = None, *, port: int = 0
) -> AsyncIterator[EmbeddedEngine]:
    """Run a vLLM; on leaving, all of its processes are killed.

    While it runs, and when it did not start, its output is in ``folder()``. Raises
    ``EngineMissingError`` if none is installed, or if it does not start.
    """
    python = find_vllm()
    port = free_port(port)
    url = f"http://{HOST}:{port}"
    async with guarded_server(
        [*_command(python, options or VllmOptions(), port)],
        url,
        folder() / f"server-{port}.log",
        limit_s=_START_LIMIT_S,
        environment=_environment(),
    ) as group:
        yield EmbeddedEngine(url, group)


def _command(python: Path, options: VllmOptions, port: int) -> Iterator[str]:
    # The console script looks for a package of another name than this build has.
    yield from (str(python), "-m", "vllm.entrypoints.openai.api_server")
    yield from ("--model", str(folder() / "model"), "--served-model-name", MODEL_NAME)
    yield from ("--host", HOST, "--port", str(port))
    yield from ("--max-model-len", str(options.context_tokens))
    yield from ("--max-num-seqs", str(options.slots))
    yield from ("--block-size", str(BLOCK_TOKENS))
    yield from ("--num-gpu-blocks-override", str(options.kv_tokens // BLOCK_TOKENS))
    yield from ("--dtype", "float32", "--enforce-eager")
    # Without it the part of a prompt that was in the cache is not told.
    yield "--enable-prompt-tokens-details"
    yield from ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    if options.paced:
        yield from ("--logits-processors", "demo.vllm_pace:Pace")
    if options.priority:
        yield from ("--scheduling-policy", "priority")
    if options.queued is not None:
        yield from ("--max-num-queued-reqs", str(options.queued))
    if options.template:
        yield from ("--chat-template", str(options.template.absolute()))
    if options.reasoning:
        # A grammar stands in for a model that reasons, so it holds for that as well.
        yield from ("--reasoning-parser", "deepseek_r1")
        yield from ("--structured-outputs-config", '{"enable_in_reasoning": true}')


def _environment() -> dict[str, str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        # Uncompiled every start takes minutes more.
        if name != "PYTHONDONTWRITEBYTECODE"
    }
    return environment | {
        "LD_PRELOAD": str(folder() / "venv" / "lib" / "libiomp5.so"),
        "PYTHONPATH": str(Path(__file__).parents[1]),
        # Its processes poll for one another. By default they yield in a loop, and newer
        # kernels then keep whoever shares their core from running for seconds.
        "VLLM_USE_SPINLOOP_EXT": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_HOST_IP": HOST,
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }


async def _serve(options: VllmOptions, port: int) -> None:
    print("vLLM is starting: one to five minutes", flush=True)
    async with vllm_engine(options, port=port) as engine:
        print(engine.url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run from the command line."""
    default = VllmOptions()
    parser = argparse.ArgumentParser(
        prog="scripts/vllm", description="Run a small real vLLM on the processor."
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--slots", type=int, default=default.slots)
    parser.add_argument(
        "--context", type=int, default=default.context_tokens, help="tokens of a slot"
    )
    parser.add_argument(
        "--kv", type=int, default=default.kv_tokens, help="tokens of all slots"
    )
    parser.add_argument(
        "--priority", action="store_true", help="serve by the field priority"
    )
    parser.add_argument(
        "--reasoning", action="store_true", help="tell reasoning from the answer"
    )
    parser.add_argument("--queued", type=int, help="refuse while so many wait")
    parser.add_argument("--template", type=Path, help="file with a chat template")
    parser.add_argument(
        "--paced", action="store_true", help="write no more than 100 tokens a second"
    )
    given = parser.parse_args()
    options = VllmOptions(
        slots=given.slots,
        context_tokens=given.context,
        kv_tokens=given.kv,
        priority=given.priority,
        reasoning=given.reasoning,
        queued=given.queued,
        template=given.template,
        paced=given.paced,
    )
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(options, given.port))
    except EngineMissingError as err:
        parser.exit(1, f"error: {err}\n")


if __name__ == "__main__":
    main()
