"""Runs as continuous integration reads them: JUnit's XML."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from smoke.models import Run
from smoke.reports import serializers


def document(batches: Sequence[Sequence[Run]]) -> bytes:
    """Return a suite for each test, with a case for each conversation."""
    root = ET.Element("testsuites", name="smoke")
    for runs in batches:
        root.append(_suite(runs))
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _suite(runs: Sequence[Run]) -> ET.Element:
    counts = serializers.counts(runs)
    suite = ET.Element(
        "testsuite",
        name=_sayable(runs[0].test),
        tests=str(len(runs)),
        failures=str(counts["failed"]),
        errors=str(counts["broken"] + counts["open"]),
        time=f"{sum(map(_seconds, runs)):.3f}",
    )
    suite.extend(_case(run) for run in runs)
    return suite


def _case(run: Run) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=f"smoke.{_sayable(run.test)}",
        name=f"{run.repetition} with {_sayable(run.agent or run.target)}",
        time=f"{_seconds(run):.3f}",
    )
    match serializers.outcome(run):
        case "failed":
            found = ET.SubElement(
                case, "failure", message=_sayable("; ".join(run.failures))
            )
            found.text = _sayable("\n".join(run.failures))
        case "broken" | "open":
            ET.SubElement(case, "error", message=_sayable(run.error or run.state))
    ET.SubElement(case, "system-out").text = _sayable("\n".join(_said(run)))
    return case


def _said(run: Run) -> Iterator[str]:
    yield f"run {run.id}"
    for line in run.lines.order_by("position"):
        yield f"{line.speaker}: {line.text}"


def _seconds(run: Run) -> float:
    if run.started_at is None or run.ended_at is None:
        return 0.0
    return (run.ended_at - run.started_at).total_seconds()


def _sayable(text: str) -> str:
    """Return a text without the characters XML has no way to say."""
    return "".join(
        each
        for each in text
        if each in "\t\n\r" or "\x20" <= each <= "\ud7ff" or each >= "\ue000"
    ).translate({0xFFFE: None, 0xFFFF: None})
