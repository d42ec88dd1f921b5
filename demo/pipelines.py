"""The Assist pipelines: which agent answers what is said or typed."""

from .api import Connection


async def prefer_agent(connection: Connection, agent: str) -> None:
    """Make the agent the one that answers, after Home Assistant's own intents."""
    pipelines = await connection.command("assist_pipeline/pipeline/list")
    pipeline = next(
        one
        for one in pipelines["pipelines"]
        if one["id"] == pipelines["preferred_pipeline"]
    )
    await connection.command(
        "assist_pipeline/pipeline/update",
        pipeline_id=pipeline.pop("id"),
        **pipeline
        | {
            "name": "Fair Share",
            "conversation_engine": agent,
            "prefer_local_intents": True,
        },
    )


async def add_pipeline(connection: Connection, agent: str) -> str:
    """Add a pipeline that leaves everything to this agent; return its id."""
    pipeline = await connection.command(
        "assist_pipeline/pipeline/create",
        name="Summaries",
        language="en",
        conversation_engine=agent,
        conversation_language="en",
        stt_engine=None,
        stt_language=None,
        tts_engine=None,
        tts_language=None,
        tts_voice=None,
        wake_word_entity=None,
        wake_word_id=None,
        prefer_local_intents=False,
    )
    pipeline_id: str = pipeline["id"]
    return pipeline_id
