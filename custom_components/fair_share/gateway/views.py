"""The paths of the gateway, under Home Assistant's own HTTP server."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
import logging
import time
from typing import Any, Final, override

from aiohttp import web
from homeassistant.core import HomeAssistant
from homeassistant.helpers.http import HomeAssistantView
from homeassistant.loader import async_get_integration
from homeassistant.util.ulid import ulid_now

from ..const import DOMAIN, GATEWAY_PATH
from ..household.generation import Ask, Receipt
from ..household.runtime import Household
from . import errors
from .callers import Caller, Callers
from .chat_reply import ChatAnswer, ChatChunks
from .chat_request import read_chat
from .completion_reply import TextAnswer, TextChunks
from .completion_request import read_completion
from .embeddings import embed
from .json_body import json_body
from .limits import limit_headers
from .models import is_ready, model_list, properties, served_model
from .relay import ClientLeft, answer_to, stream_answer, while_there
from .wanted import Wanted
from .web_pages import origin_headers, preflight

_LOGGER = logging.getLogger(__name__)

_BASE: Final = GATEWAY_PATH.rpartition("/")[0]
_LEFT: Final = 499
"""Read by nobody: whoever asked is gone."""


async def async_setup_gateway(hass: HomeAssistant) -> None:
    """Make the paths known. There is nothing behind them until there is a client."""
    callers = Callers(hass)
    version = str((await async_get_integration(hass, DOMAIN)).version)
    for view in (
        ChatView(hass, callers),
        CompletionsView(hass, callers),
        EmbeddingsView(hass, callers),
        ModelsView(hass, callers),
        ModelView(hass, callers),
        HealthView(hass, callers),
        PropertiesView(hass, callers),
        VersionView(hass, callers, version),
    ):
        hass.http.register_view(view)


def running_household(hass: HomeAssistant) -> Household | None:
    """Return the household that has clients, ``None`` if none runs that does."""
    for entry in hass.config_entries.async_loaded_entries(DOMAIN):
        household: Household = entry.runtime_data
        if household.registry.clients:
            return household
    return None


@dataclass(frozen=True, slots=True)
class Call:
    """A request of a client, and the household that it came to.

    ``call_id`` is unique; ``model`` is the one in the path, if there is.
    ``origin_headers`` let the web page that it came from read the answer.
    """

    request: web.Request
    household: Household
    call_id: str
    model: str
    origin_headers: Mapping[str, str]


class GatewayView(HomeAssistantView):
    """A path of the gateway: who asks is told here, by the gateway's own rules."""

    requires_auth = False
    cors_allowed = False

    def __init__(self, hass: HomeAssistant, callers: Callers) -> None:
        """Serve the household that runs, if one does."""
        self._hass = hass
        self._callers = callers

    @override
    def register(
        self, hass: HomeAssistant, app: web.Application, router: web.UrlDispatcher
    ) -> None:
        """Make the paths known.

        Home Assistant's rules for web pages, which an application carries, are for all
        of its paths, and let a page of its makers in: these paths have their own.
        """
        super().register(hass, web.Application(), router)

    async def options(
        self,
        request: web.Request,
        model: str = "",  # noqa: ARG002 - part of the path
    ) -> web.StreamResponse:
        """Tell a browser whether a web page may ask."""
        return preflight(request, running_household(self._hass))

    async def serve(self, request: web.Request, model: str = "") -> web.StreamResponse:
        """Return the answer to a request, or the error that it raises."""
        call_id, household = ulid_now(), running_household(self._hass)
        if household is None:
            return self._refused(errors.not_found(), call_id)
        origin = origin_headers(request, household)
        try:
            answer = await self.handle(Call(request, household, call_id, model, origin))
        except errors.ApiError as err:
            answer = self._refused(err, call_id)
        except ClientLeft:
            return web.Response(status=_LEFT)
        except Exception:  # no traceback may reach a client
            _LOGGER.exception("A request to the gateway failed")
            answer = self._refused(errors.unexpected(), call_id)
        if not answer.prepared:
            answer.headers.update(origin)
        return answer

    @abstractmethod
    async def handle(self, call: Call) -> web.StreamResponse:
        """Answer a request. Raises ``ApiError`` and ``ClientLeft``."""

    def identify(self, call: Call) -> Caller:
        """Return who asks. Raises ``ApiError``."""
        return self._callers.identify(call.request, call.household, self.now())

    def keep_pace(self, caller: Caller) -> int | None:
        """Count a request; see ``Callers.keep_pace``. Raises ``ApiError``."""
        return self._callers.keep_pace(caller, self.now())

    def now(self) -> float:
        """Return the time in seconds, from any beginning."""
        return self._hass.loop.time()

    def _refused(self, error: errors.ApiError, call_id: str) -> web.StreamResponse:
        headers = {"x-request-id": call_id, **error.headers()}
        return self.json(error.body(), error.status, headers=headers)


class _GetView(GatewayView):
    """A path that is read."""

    async def get(self, request: web.Request, model: str = "") -> web.StreamResponse:
        """Answer, whoever waits for an answer of the model."""
        return await self.serve(request, model)


class _AnswerView(GatewayView):
    """A path by which the model is asked."""

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answer when it is this request's turn."""
        return await self.serve(request)

    @abstractmethod
    def read(
        self, body: Mapping[str, Any], caller: Caller, room_tokens: int | None
    ) -> Wanted:
        """Return what a body asks for. Raises ``ApiError``."""

    @abstractmethod
    def chunks(self, wanted: Wanted, answer_id: str, model: str) -> ChatChunks:
        """Return what makes the events of a streamed answer."""

    @abstractmethod
    def whole(self, answer_id: str, model: str) -> ChatAnswer:
        """Return what puts a whole answer together."""

    @override
    async def handle(self, call: Call) -> web.StreamResponse:
        """Ask the model by the household's queue."""
        began_s = self.now()
        caller = self.identify(call)
        requests_left = self.keep_pace(caller)
        wanted = self.read(
            await json_body(call.request), caller, call.household.context_limit()
        )
        receipt = Receipt()
        ask = Ask(caller.asker, wanted.workload, wanted.generation, receipt=receipt)

        def headers() -> Mapping[str, str]:
            return {
                "x-request-id": receipt.request_id or call.call_id,
                "openai-processing-ms": str(round((self.now() - began_s) * 1000)),
                **limit_headers(call.household, caller, requests_left),
                **call.origin_headers,
            }

        model = wanted.generation.model or served_model(call.household)
        async with answer_to(call.household, ask) as deltas:
            if wanted.stream:
                chunks = self.chunks(wanted, call.call_id, model)
                return await stream_answer(call.request, deltas, headers, chunks.of)
            answer = self.whole(call.call_id, model)
            async with while_there(call.request):
                async for delta in deltas:
                    answer.add(delta)
        return self.json(answer.whole(), headers=headers())


class ChatView(_AnswerView):
    """Chat completions."""

    url = f"{GATEWAY_PATH}/chat/completions"
    name = "api:fair_share:chat_completions"

    @override
    def read(
        self, body: Mapping[str, Any], caller: Caller, room_tokens: int | None
    ) -> Wanted:
        return read_chat(body, caller.workload, room_tokens)

    @override
    def chunks(self, wanted: Wanted, answer_id: str, model: str) -> ChatChunks:
        return ChatChunks(
            f"chatcmpl-{answer_id}", int(time.time()), model, wanted.include_usage
        )

    @override
    def whole(self, answer_id: str, model: str) -> ChatAnswer:
        return ChatAnswer(f"chatcmpl-{answer_id}", int(time.time()), model)


class CompletionsView(_AnswerView):
    """Completions of a text, without the form of a chat."""

    url = f"{GATEWAY_PATH}/completions"
    name = "api:fair_share:completions"

    @override
    def read(
        self, body: Mapping[str, Any], caller: Caller, room_tokens: int | None
    ) -> Wanted:
        return read_completion(body, caller.workload, room_tokens)

    @override
    def chunks(self, wanted: Wanted, answer_id: str, model: str) -> TextChunks:
        return TextChunks(
            f"cmpl-{answer_id}", int(time.time()), model, wanted.include_usage
        )

    @override
    def whole(self, answer_id: str, model: str) -> TextAnswer:
        return TextAnswer(f"cmpl-{answer_id}", int(time.time()), model)


class EmbeddingsView(GatewayView):
    """Embeddings of texts."""

    url = f"{GATEWAY_PATH}/embeddings"
    name = "api:fair_share:embeddings"

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answer when it is this request's turn."""
        return await self.serve(request)

    @override
    async def handle(self, call: Call) -> web.StreamResponse:
        """Ask a server, as background work."""
        caller = self.identify(call)
        requests_left = self.keep_pace(caller)
        body = await json_body(call.request)
        async with while_there(call.request):
            answer = await embed(call.household, caller, body)
        headers = {
            "x-request-id": call.call_id,
            **limit_headers(call.household, caller, requests_left),
        }
        return self.json(answer, headers=headers)


class ModelsView(_GetView):
    """The models of all servers."""

    url = f"{GATEWAY_PATH}/models"
    name = "api:fair_share:models"

    @override
    async def handle(self, call: Call) -> web.StreamResponse:
        """List them."""
        self.identify(call)
        return self.json(model_list(call.household))


class ModelView(_GetView):
    """One model."""

    url = f"{GATEWAY_PATH}/models/{{model:.+}}"
    name = "api:fair_share:model"

    @override
    async def handle(self, call: Call) -> web.StreamResponse:
        """Tell what is known of it."""
        self.identify(call)
        for model in model_list(call.household)["data"]:
            if model["id"] == call.model:
                return self.json(model)
        raise errors.no_model()


class HealthView(_GetView):
    """Whether an answer can be had, as llama.cpp and vLLM tell it; without a key."""

    url = f"{_BASE}/health"
    extra_urls = [f"{GATEWAY_PATH}/health"]  # noqa: RUF012 - as declared there
    name = "api:fair_share:health"

    @override
    async def handle(self, call: Call) -> web.StreamResponse:
        """Tell it, also while all are busy."""
        if is_ready(call.household):
            return self.json({"status": "ok"})
        return self.json({"status": "no server ready"}, HTTPStatus.SERVICE_UNAVAILABLE)


class PropertiesView(_GetView):
    """What llama.cpp's server tells of itself."""

    url = f"{_BASE}/props"
    extra_urls = [f"{GATEWAY_PATH}/props"]  # noqa: RUF012 - as declared there
    name = "api:fair_share:props"

    @override
    async def handle(self, call: Call) -> web.StreamResponse:
        """Tell it of all servers together."""
        self.identify(call)
        return self.json(properties(call.household))


class VersionView(_GetView):
    """The version, as vLLM tells its own; without a key."""

    url = f"{_BASE}/version"
    extra_urls = [f"{GATEWAY_PATH}/version"]  # noqa: RUF012 - as declared there
    name = "api:fair_share:version"

    def __init__(self, hass: HomeAssistant, callers: Callers, version: str) -> None:
        """Tell this version."""
        super().__init__(hass, callers)
        self._version = version

    @override
    async def handle(self, call: Call) -> web.StreamResponse:
        """Tell it."""
        return self.json({"version": self._version})
