"""Plain-text tables of the quality measurement."""

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
    """The results of one database."""

    backend: str
    questions: list[QuestionResult]
    pairs: list[PairResult]
    embedding: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds to embed each question, by embedder."""

    def of_half(self, half: str) -> "QualityReport":
        """Return the report on one half of the questions."""
        return replace(
            self, questions=[one for one in self.questions if one.half == half]
        )


def render(reports: Sequence[QualityReport], *, by: str | None = None) -> str:
    """Return all tables; `by` adds a breakdown by `kind` or `language`."""
    parts = list(_searches(reports))
    parts += [_breakdown(reports[0], by)] if by else []
    parts += [_pairs(reports)] if reports[0].pairs else []
    parts.append(_notes(reports))
    return "\n\n".join(parts)


def _searches(reports: Sequence[QualityReport]) -> Iterator[str]:
    for corpus in ("facts", "messages"):
        rows = [[corpus, "", *(c for r in reports for c in _title(r.backend))]]
        rows.append(["embedder", "search", *(FIGURES * len(reports))])
        for embedder, retriever in _retrievers(reports[0], corpus):
            row = [embedder, retriever]
            for report in reports:
                row += _figures(_select(report.questions, corpus, embedder, retriever))
            rows.append(row)
        if len(rows) > 2:
            rows[0][1] = f"{_count(reports[0], corpus)} questions"
            yield _align(rows, heads=2)


def _title(backend: str) -> Cells:
    return [TITLES[backend], *[""] * (len(FIGURES) - 1)]


def _retrievers(report: QualityReport, corpus: str) -> list[tuple[str, str]]:
    """Return the measured embedders and retrievers; lexical search has no embedder."""
    measured = [
        ("-" if one.retriever == "lexical" else one.embedder, one.retriever)
        for one in report.questions
        if one.corpus == corpus
    ]
    return list(dict.fromkeys(measured))


def _select(
    results: Sequence[QuestionResult], corpus: str, embedder: str, retriever: str
) -> list[QuestionResult]:
    return [
        one
        for one in results
        if one.corpus == corpus
        and one.retriever == retriever
        and embedder in ("-", one.embedder)
    ]


def _figures(results: Sequence[QuestionResult]) -> Cells:
    milliseconds = [one.milliseconds for one in results]
    return [
        *(_share(metrics.recall(results, k)) for k in (5, 10, 20)),
        _share(metrics.reciprocal_rank(results)),
        *(f"{quantile(milliseconds, share):.2f}" for share in (0.5, 0.95)),
    ]


def _count(report: QualityReport, corpus: str) -> int:
    retrievers = _retrievers(report, corpus)
    return len(_select(report.questions, corpus, *retrievers[0]))


def _breakdown(report: QualityReport, by: str) -> str:
    """Return recall@5 of each kind or language, on the first database."""
    parts = []
    for corpus in ("facts", "messages"):
        values = sorted(
            {getattr(o, by) for o in report.questions if o.corpus == corpus}
        )
        rows = [[f"{corpus}, R@5", "", *values]]
        for number, (embedder, retriever) in enumerate(_retrievers(report, corpus)):
            results = _select(report.questions, corpus, embedder, retriever)
            groups = [[o for o in results if getattr(o, by) == v] for v in values]
            if number == 0:
                rows.append(["questions", "", *(str(len(g)) for g in groups)])
            shares = [_share(metrics.recall(g, 5)) if g else "-" for g in groups]
            rows.append([embedder, retriever, *shares])
        if len(rows) > 1:
            parts.append(_align(rows, heads=1))
    return "\n\n".join(parts)


def _pairs(reports: Sequence[QualityReport]) -> str:
    embedders = list(dict.fromkeys(one.embedder for one in reports[0].pairs))
    columns = [(report, name) for report in reports for name in embedders]
    rows = [["pairs", "", *(TITLES[r.backend] for r, _ in columns)]]
    rows.append(["", "", *(name for _, name in columns)])
    for (label, _), error in metrics.ERRORS.items():
        cells = (
            metrics.errors([o for o in r.pairs if o.embedder == name], label, error)
            for r, name in columns
        )
        rows.append([label, error, *cells])
    return _align(rows, heads=2)


def _notes(reports: Sequence[QualityReport]) -> str:
    foreign = sum(one.foreign for report in reports for one in report.questions)
    lines = [f"results of other users or outdated: {foreign}"]
    for name, milliseconds in reports[0].embedding.items():
        if milliseconds:
            lines.append(
                f"embedding a question with {name}: "
                f"p50 {quantile(milliseconds, 0.5):.2f} ms, "
                f"p95 {quantile(milliseconds, 0.95):.2f} ms"
            )
    return "\n".join(lines)


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else "1.00"


def _align(rows: Sequence[Cells], *, heads: int) -> str:
    """Return aligned lines: texts to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines[:heads], "-" * max(map(len, lines)), *lines[heads:]])
