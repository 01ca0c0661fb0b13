"""The YAML's `embed_with:` map: the embedder settings."""

from pydantic import BaseModel, ConfigDict, Field

from providers.config import ApiKey, BaseUrl

MAX_DIMENSIONS = 16_000
"""The limit of PostgreSQL's vectors."""


class EmbedderConfig(BaseModel):
    """The embedder to use. Default: the best one that the configuration allows."""

    # `embedders.find_problems` checks the provider and the model: it knows the rest of
    # the configuration.

    # The input contains keys.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    provider: str = Field(
        min_length=1,
        description="`openai`, `voyage`, `local` (a small model on the CPU, offline), "
        "`hash` (offline, words only), or the name of an entry under `providers:` "
        "that speaks OpenAI's API. An entry takes precedence over a built-in name.",
    )
    model: str | None = Field(
        None,
        min_length=1,
        description="The embedding model. Default: the provider's default; required "
        "for a server at another `base_url`.",
    )
    api_key: ApiKey = Field(
        None,
        description="The provider's key. Required for `voyage`. Default for the "
        "others: the key of their entry under `providers:`.",
    )
    base_url: BaseUrl | None = Field(
        None,
        description="The address of the API, usually ending in `/v1`. Default: that of "
        "the entry under `providers:`, or the provider's own. With an address here, "
        "only the key set here is sent.",
    )
    dims: int | None = Field(
        None,
        gt=0,
        le=MAX_DIMENSIONS,
        description="The number of dimensions, for models with a choice: any for "
        "`hash`, fewer for many models. Required for models that Coulisse does not "
        "know.",
    )
    similarity_threshold: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="The cosine similarity below which two texts count as unrelated. "
        "Default: by embedder.",
    )
