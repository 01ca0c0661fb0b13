"""An agent's `realtime:` in the YAML: the model with which it speaks."""

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_TRANSCRIPTION = "gpt-transcribe"


class RealtimeConfig(BaseModel):
    """The model for conversations by voice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(
        min_length=1,
        description="The provider's name of the model, such as `gpt-realtime-2`.",
    )
    provider: str | None = Field(
        default=None,
        description="A name under `providers:`, of kind `openai`. Unset: the agent's.",
    )
    voice: str | None = Field(
        default=None, min_length=1, description="Unset: the model's default voice."
    )
    transcription: str | None = Field(
        default=DEFAULT_TRANSCRIPTION,
        min_length=1,
        description="The model that writes down what the user says; `null` for none.",
    )
