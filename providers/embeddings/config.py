"""The YAML's `embed_with:` map: the embedder settings."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from providers.config import check_key, normalize_url, strip_key

MAX_DIMENSIONS = 16_000
"""The limit of PostgreSQL's vectors."""


class EmbedderConfig(BaseModel):
    """The embedder to use, in place of the one chosen by what is configured.

    Whether the provider and the model exist is for `embedders.problems`, which knows
    the rest of the configuration.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # The input contains keys.
        hide_input_in_errors=True,
    )

    provider: str = Field(
        min_length=1,
        description="`openai`, `voyage`, `local` (a small model on the CPU, offline), "
        "`hash` (offline, words only), or the name of an entry under `providers:` "
        "that speaks OpenAI's API. Such an entry wins over a built-in name.",
    )
    model: str | None = Field(
        None,
        min_length=1,
        description="Which of the provider's embedding models. Its default unless "
        "given; needed for a server at another `base_url`.",
    )
    api_key: SecretStr | None = Field(
        None,
        description="The provider's key. `voyage` needs one here; the others take "
        "that of their entry under `providers:`.",
    )
    base_url: str | None = Field(
        None,
        description="Where the API is, usually ending in `/v1`. That of the entry "
        "under `providers:`, or the provider's own, unless given. An address given "
        "here is sent no key but one given here.",
    )
    dims: int | None = Field(
        None,
        gt=0,
        le=MAX_DIMENSIONS,
        description="The length of a vector, where it can be chosen: any for `hash`, "
        "shorter ones for many models. Needed for models Coulisse does not know.",
    )
    floor: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="The cosine similarity below which two texts have nothing to do "
        "with each other. The embedder's own unless given.",
    )

    _clean_key = field_validator("api_key", mode="before")(strip_key)
    _sendable_key = field_validator("api_key")(check_key)
    _clean_url = field_validator("base_url")(normalize_url)
