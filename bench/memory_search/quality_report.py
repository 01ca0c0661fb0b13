"""The quality of memory as tables of plain text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.memory_search import metrics
from bench.memory_search.metrics import PairResult, QuestionResult
from bench.turn_costs.plain_turns import quantile

TITLES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
FIGURES = ("R@5", "R@10", "R@20", "MRR", "p50 ms", "p95 ms")

Cells = list[str]


@dataclass(frozen=True)
class QualityReport:
    """What was measured on one database."""

    backend: str
    asked: list[QuestionResult]
    tried: list[PairResult]
    embedding: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds each question took to embed, by embedder."""

    def of_half(self, half: str) -> "QualityReport":
        """Return the report on one half of the questions."""
        return replace(self, asked=[one for one in self.asked if one.half == half])


def render(reports: Sequence[QualityReport], *, by: str | None = None) -> str:
    """Return all tables. `by` is `kind` or `language`: those apart, too."""
    parts = list(_searches(reports))
    parts += [_breakdown(reports[0], by)] if by else []
    parts += [_pairs(reports)] if reports[0].tried else []
    parts.append(_notes(reports))
    return "\n\n".join(parts)


def _searches(reports: Sequence[QualityReport]) -> Iterator[str]:
    for holds in ("facts", "messages"):
        rows = [[holds, "", *(c for r in reports for c in _title(r.backend))]]
        rows.append(["embedder", "leg", *(FIGURES * len(reports))])
        for embedder, leg in _retrievers(reports[0], holds):
            row = [embedder, leg]
            for report in reports:
                row += _figures(_select(report.asked, holds, embedder, leg))
            rows.append(row)
        if len(rows) > 2:
            rows[0][1] = f"{_count(reports[0], holds)} questions"
            yield _align(rows, heads=2)


def _title(backend: str) -> Cells:
    return [TITLES[backend], *[""] * (len(FIGURES) - 1)]


def _retrievers(report: QualityReport, holds: str) -> list[tuple[str, str]]:
    """Return embedders and legs as measured; words have no embedder."""
    found = [
        ("-" if one.leg == "lexical" else one.embedder, one.leg)
        for one in report.asked
        if one.holds == holds
    ]
    return list(dict.fromkeys(found))


def _select(
    asked: Sequence[QuestionResult], holds: str, embedder: str, leg: str
) -> list[QuestionResult]:
    return [
        one
        for one in asked
        if one.holds == holds and one.leg == leg and embedder in ("-", one.embedder)
    ]


def _figures(asked: Sequence[QuestionResult]) -> Cells:
    took = [one.milliseconds for one in asked]
    return [
        *(_share(metrics.recall(asked, k)) for k in (5, 10, 20)),
        _share(metrics.reciprocal_rank(asked)),
        *(f"{quantile(took, share):.2f}" for share in (0.5, 0.95)),
    ]


def _count(report: QualityReport, holds: str) -> int:
    legs = _retrievers(report, holds)
    return len(_select(report.asked, holds, *legs[0]))


def _breakdown(report: QualityReport, by: str) -> str:
    """Return recall@5 of each kind or language, on the first database."""
    parts = []
    for holds in ("facts", "messages"):
        values = sorted({getattr(o, by) for o in report.asked if o.holds == holds})
        rows = [[f"{holds}, R@5", "", *values]]
        for number, (embedder, leg) in enumerate(_retrievers(report, holds)):
            asked = _select(report.asked, holds, embedder, leg)
            groups = [[o for o in asked if getattr(o, by) == v] for v in values]
            if number == 0:
                rows.append(["questions", "", *(str(len(g)) for g in groups)])
            shares = [_share(metrics.recall(g, 5)) if g else "-" for g in groups]
            rows.append([embedder, leg, *shares])
        if len(rows) > 1:
            parts.append(_align(rows, heads=1))
    return "\n\n".join(parts)


def _pairs(reports: Sequence[QualityReport]) -> str:
    embedders = list(dict.fromkeys(one.embedder for one in reports[0].tried))
    columns = [(report, name) for report in reports for name in embedders]
    rows = [["pairs", "", *(TITLES[r.backend] for r, _ in columns)]]
    rows.append(["", "", *(name for _, name in columns)])
    for (label, _), wrong in metrics.WRONG.items():
        cells = (
            metrics.errors([o for o in r.tried if o.embedder == name], label, wrong)
            for r, name in columns
        )
        rows.append([label, wrong, *cells])
    return _align(rows, heads=2)


def _notes(reports: Sequence[QualityReport]) -> str:
    strangers = sum(one.strangers for report in reports for one in report.asked)
    lines = [f"found of other users, or no longer so: {strangers}"]
    for name, took in reports[0].embedding.items():
        if took:
            lines.append(
                f"embedding a question with {name}: p50 {quantile(took, 0.5):.2f} ms, "
                f"p95 {quantile(took, 0.95):.2f} ms"
            )
    return "\n".join(lines)


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else "1.00"


def _align(rows: Sequence[Cells], *, heads: int) -> str:
    """Return aligned lines: words to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines[:heads], "-" * max(map(len, lines)), *lines[heads:]])
