"""The APIs behind LiteLLM's prefixes of models, such as `openai/`."""

from dataclasses import dataclass

from providers.config import KindName


@dataclass(frozen=True, slots=True)
class Api:
    """How Coulisse calls the same API."""

    kind: KindName = "openai"
    base_url: str = ""
    """The default address; "" for that of the kind, or for none."""
    key: str = ""
    """The environment variable that LiteLLM reads the key from; "" for none."""
    path: str = ""
    """The end of its addresses, which is added where it is missing."""
    is_fixed: bool = False
    """Whether LiteLLM calls another API of the provider, so that its addresses do not
    apply."""


OPENAI = Api(key="OPENAI_API_KEY")
LIKE_OPENAI = Api()

HOSTED = {
    "cerebras": "api.cerebras.ai/v1",
    "dashscope": "dashscope-intl.aliyuncs.com/compatible-mode/v1",
    "deepinfra": "api.deepinfra.com/v1/openai",
    "fireworks_ai": "api.fireworks.ai/inference/v1",
    "github": "models.github.ai/inference",
    "huggingface": "router.huggingface.co/v1",
    "mistral": "api.mistral.ai/v1",
    "moonshot": "api.moonshot.ai/v1",
    "nvidia_nim": "integrate.api.nvidia.com/v1",
    "openrouter": "openrouter.ai/api/v1",
    "sambanova": "api.sambanova.ai/v1",
    "xai": "api.x.ai/v1",
}
"""Services with an API like OpenAI's, whose keys are in `PREFIX_API_KEY`."""

APIS: dict[str, Api] = {
    "openai": OPENAI,
    "anthropic": Api("anthropic", key="ANTHROPIC_API_KEY"),
    "azure": Api(key="AZURE_API_KEY", path="/openai/v1"),
    "cohere": Api("cohere", key="COHERE_API_KEY", is_fixed=True),
    "cohere_chat": Api("cohere", key="COHERE_API_KEY", is_fixed=True),
    "deepseek": Api("deepseek", key="DEEPSEEK_API_KEY"),
    "gemini": Api("gemini", key="GEMINI_API_KEY", is_fixed=True),
    "groq": Api("groq", key="GROQ_API_KEY"),
    "ollama": Api(base_url="http://localhost:11434", path="/v1"),
    "ollama_chat": Api(base_url="http://localhost:11434", path="/v1"),
    "perplexity": Api(base_url="https://api.perplexity.ai", key="PERPLEXITYAI_API_KEY"),
    "together_ai": Api(
        base_url="https://api.together.xyz/v1", key="TOGETHERAI_API_KEY"
    ),
    **dict.fromkeys(("custom_openai", "hosted_vllm", "litellm_proxy"), LIKE_OPENAI),
    **dict.fromkeys(("llamafile", "lm_studio", "openai_like", "vllm"), LIKE_OPENAI),
    **{
        prefix: Api(base_url=f"https://{address}", key=f"{prefix.upper()}_API_KEY")
        for prefix, address in HOSTED.items()
    },
}

UNPREFIXED = {
    "chatgpt-": "openai",
    "claude-": "anthropic",
    "command-": "cohere",
    "deepseek-": "deepseek",
    "ft:gpt-": "openai",
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
}
"""Beginnings of models that LiteLLM knows without a prefix."""

ROUTES = ("responses/", "o_series/", "gpt5_series/")
"""Prefixes of names of models, which tell LiteLLM how to call them."""


def find_api(model: str, given: str | None, address: str | None) -> tuple[str, str]:
    """Return the prefix and the provider's name of a model.

    `given` is its `custom_llm_provider`. The prefix may be none of `APIS`.
    """
    prefix, _, rest = model.partition("/")
    if given:
        name = rest if prefix == given else model
        return given, _without_route(name)
    if rest and (prefix in APIS or not address):
        return prefix, _without_route(rest)
    for beginning, known in UNPREFIXED.items():
        if model.startswith(beginning):
            return known, model
    return ("openai_like" if address else model), model


def _without_route(model: str) -> str:
    for route in ROUTES:
        model = model.removeprefix(route)
    return model
