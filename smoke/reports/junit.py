"""Runs as JUnit XML, for continuous integration."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from smoke.models import SmokeRun
from smoke.reports import batches as figures


def as_xml(batches: Sequence[Sequence[SmokeRun]]) -> bytes:
    """Return a suite for each test, with a case for each conversation."""
    root = ET.Element("testsuites", name="smoke")
    for runs in batches:
        root.append(_suite(runs))
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _suite(runs: Sequence[SmokeRun]) -> ET.Element:
    counts = figures.count_outcomes(runs)
    suite = ET.Element(
        "testsuite",
        name=_xml_text(runs[0].test),
        tests=str(len(runs)),
        failures=str(counts["failed"]),
        errors=str(counts["aborted"] + counts["open"]),
        time=f"{sum(run.seconds or 0.0 for run in runs):.3f}",
    )
    suite.extend(_case(run) for run in runs)
    return suite


def _case(run: SmokeRun) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=f"smoke.{_xml_text(run.test)}",
        name=f"{run.repetition} with {_xml_text(run.agent or run.target)}",
        time=f"{run.seconds or 0.0:.3f}",
    )
    match run.outcome:
        case "failed":
            found = ET.SubElement(
                case, "failure", message=_xml_text("; ".join(run.failures))
            )
            found.text = _xml_text("\n".join(run.failures))
        case "aborted" | "open":
            ET.SubElement(case, "error", message=_xml_text(run.error or run.state))
    ET.SubElement(case, "system-out").text = _xml_text(
        "\n".join(_transcript_lines(run))
    )
    return case


def _transcript_lines(run: SmokeRun) -> Iterator[str]:
    yield f"run {run.id}"
    for message in run.messages.order_by("position"):
        yield f"{message.speaker}: {message.text}"


def _xml_text(text: str) -> str:
    """Return a text without the characters that XML does not allow."""
    return "".join(
        each
        for each in text
        if each in "\t\n\r" or "\x20" <= each <= "\ud7ff" or each >= "\ue000"
    ).translate({0xFFFE: None, 0xFFFF: None})
