"""Programs of others as real processes: LiteLLM's package, the command llm, fetch.

The first two are there after ``scripts/clients``; Node.js is taken where there is one.
"""

import asyncio
import json
import os
from pathlib import Path
import shutil
from typing import Any

import pytest

from custom_components.fair_share.const import GATEWAY_PATH
from tests.fake_server import answer
from tests.gateway.conftest import KEY, House

_LIMIT_S = 90

LITELLM = """
import json, os, litellm
ask = dict(
    model="openai/fake-model", api_base=os.environ["BASE"], api_key=os.environ["KEY"],
    messages=[{"role": "user", "content": "Hello"}], num_retries=0,
)
whole = litellm.completion(**ask)
stream = litellm.completion(**ask, stream=True)
text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
try:
    litellm.completion(**{**ask, "api_key": "fs-wrong"})
except litellm.AuthenticationError as err:
    refused = err.status_code
print(json.dumps([whole.choices[0].message.content, text, refused]))
"""

FETCH = """
const ask = (key, stream) => fetch(`${process.env.BASE}/chat/completions`, {
  method: "POST",
  headers: {"Content-Type": "application/json", "Authorization": `Bearer ${key}`},
  body: JSON.stringify({messages: [{role: "user", content: "Hello"}], stream}),
});
const told = await (await ask(process.env.KEY, false)).json();
const whole = told.choices[0].message.content;
const decoder = new TextDecoder();
let rest = "", text = "";
for await (const data of (await ask(process.env.KEY, true)).body) {
  const events = (rest + decoder.decode(data, {stream: true})).split("\\n\\n");
  rest = events.pop();
  for (const event of events)
    if (event.startsWith("data: {"))
      text += JSON.parse(event.slice(6)).choices[0].delta.content ?? "";
}
const refused = (await ask("fs-wrong", false)).status;
console.log(JSON.stringify([whole, text, refused]));
"""


def _program(name: str) -> Path:
    """Return the folder of programs that ``scripts/clients`` made, or skip the test."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("FAIR_SHARE_CACHE") or usual / "fair-share")
    if not (cache / "clients" / name / "complete").exists():
        pytest.skip("scripts/clients has not installed it")
    return cache / "clients" / name / "bin"


async def _run(house: House, *command: str | Path, **environment: str) -> str:
    """Return what a program says, with the address and the key in its environment."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "BASE": str(house.program.http.make_url(GATEWAY_PATH)),
            "KEY": KEY,
            **environment,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_LIMIT_S):
            said, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    return said.decode()


async def _said(house: House, *command: str | Path, **environment: str) -> Any:
    said = await _run(house, *command, **environment)
    return json.loads(said.strip().splitlines()[-1])


async def test_litellms_package(house: House, tmp_path: Path) -> None:
    python = _program("litellm") / "python"
    told = await _said(
        house,
        *(python, "-c", LITELLM),
        HOME=str(tmp_path),
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )
    assert told == ["Hello.", "Hello.", 401]


async def test_the_command_llm(house: House, tmp_path: Path) -> None:
    llm = _program("llm") / "llm"
    model = {
        "model_id": "home",
        "model_name": "fake-model",
        "api_base": str(house.program.http.make_url(GATEWAY_PATH)),
        "api_key_name": "home",
    }
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps([model]))
    (tmp_path / "keys.json").write_text(json.dumps({"home": KEY}))
    house.server.default = answer("Good", " day.")
    for options in ((), ("--no-stream",)):
        said = await _run(
            house,
            *(llm, "-m", "home", *options, "Hello"),
            LLM_USER_PATH=str(tmp_path),
            HOME=str(tmp_path),
        )
        assert said.strip() == "Good day."


async def test_fetch_as_browsers_have_it(house: House) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node.js is here")
    told = await _said(house, node, "--input-type=module", "-e", FETCH)
    assert told == ["Hello.", "Hello.", 401]
