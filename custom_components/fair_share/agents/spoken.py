"""Which agents people speak to."""

from homeassistant.core import HomeAssistant, callback

from ..admission.model import Workload

_PIPELINES = "assist_pipeline"
_SPOKEN = (Workload.VOICE, Workload.ACCESSIBILITY)


@callback
def async_is_spoken_to(hass: HomeAssistant, entity_id: str, workload: Workload) -> bool:
    """Whether an agent answers by voice: by its own kind, or in an Assist pipeline."""
    if workload in _SPOKEN:
        return True
    if _PIPELINES not in hass.config.components:
        return False
    # Its requirements are there only where it is loaded.
    from homeassistant.components.assist_pipeline import (  # noqa: PLC0415
        async_get_pipelines,
    )

    return any(
        pipeline.stt_engine and pipeline.conversation_engine == entity_id
        for pipeline in async_get_pipelines(hass)
    )
