"""Sums up the tests of a build folder by label, from what GoogleTest and CTest wrote into BUILD/test-results.

usage: tools/test_summary.py BUILD [--label REGEX] [--exclude-label REGEX] [--fail-on-skip-except LABEL]...
                             [--skips]

--label and --exclude-label say which tests were asked for, as ctest's -L and -LE do: one of those without
results counts as failed, by name. Exit code 1 where a test failed, where none ran, and on a skip not allowed.
"""

import argparse
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

CTEST_RESULTS = "ctest.xml"


@dataclass
class Totals:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def add(self, other: "Totals") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.seconds += other.seconds


@dataclass
class Summary:
    by_label: dict[str, Totals] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    # Label, test and message.
    skips: list[tuple[str, str, str]] = field(default_factory=list)

    def total(self) -> Totals:
        total = Totals()
        for totals in self.by_label.values():
            total.add(totals)
        return total


def expected_binaries(build: Path, label: str | None, exclude_label: str | None) -> dict[str, str]:
    """Test name to label, of the tests that were asked for."""
    command = ["ctest", "--test-dir", str(build), "--show-only=json-v1"]
    if label:
        command += ["-L", label]
    if exclude_label:
        command += ["-LE", exclude_label]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for test in json.loads(listing)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        labels = properties.get("LABELS") or [test["name"].split("_")[0]]
        found[test["name"]] = labels[0]
    return found


def ended_badly(results: Path) -> set[str]:
    """Binaries that CTest calls failed: by exit code, signal or time limit."""
    file = results / CTEST_RESULTS
    if not file.exists():
        return set()
    cases = ElementTree.parse(file).getroot().iter("testcase")
    return {case.get("name", "") for case in cases if case.find("failure") is not None}


def one_line(message: str | None) -> str:
    return " ".join((message or "no reason given").split())


def message_of_skip(case: ElementTree.Element) -> str:
    """The message without GoogleTest's first line, which is the place in the source."""
    skipped = case.find("skipped")
    if skipped is None:
        return "disabled"
    message = skipped.get("message") or skipped.text or ""
    first, _, rest = message.partition("\n")
    return one_line(rest if rest.strip() and ".cpp:" in first else message)


def read_binary(summary: Summary, name: str, label: str, file: Path) -> int:
    """Adds one binary's results; gives the number of failed tests in it."""
    totals = summary.by_label.setdefault(label, Totals())
    try:
        root = ElementTree.parse(file).getroot()
    except (OSError, ElementTree.ParseError):
        totals.failed += 1
        summary.failures.append(f"{name}: left no results: it crashed, ran out of time or did not start")
        return 1
    failed = 0
    for case in root.iter("testcase"):
        test = f"{name}: {case.get('classname')}.{case.get('name')}"
        totals.seconds += float(case.get("time") or 0)
        failures = case.findall("failure")
        if failures:
            failed += 1
            summary.failures.append(f"{test}: {one_line(failures[0].get('message'))}")
        elif case.get("result") == "skipped" or case.get("status") == "notrun":
            totals.skipped += 1
            summary.skips.append((label, test, message_of_skip(case)))
        else:
            totals.passed += 1
    totals.failed += failed
    return failed


def summarize(results: Path, expected: dict[str, str]) -> Summary:
    summary = Summary()
    bad = ended_badly(results)
    for name, label in sorted(expected.items()):
        failed = read_binary(summary, name, label, results / f"{name}.xml")
        if failed == 0 and name in bad:
            # A leak found at exit, for one: every test passed by then.
            summary.by_label[label].failed += 1
            summary.failures.append(f"{name}: no test of it failed, yet it ended with an error")
    return summary


def table(summary: Summary) -> str:
    lines = [f"{'label':<14}{'tests':>7}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    total = summary.total()
    for label, totals in [*sorted(summary.by_label.items()), ("all", total)]:
        count = totals.passed + totals.failed + totals.skipped
        lines.append(
            f"{label:<14}{count:>7}{totals.passed:>8}{totals.failed:>8}{totals.skipped:>9}{totals.seconds:>9.1f}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Sums up the tests of a build folder by label.")
    parser.add_argument("build", type=Path)
    parser.add_argument("--label", help="the tests asked for: labels that match")
    parser.add_argument("--exclude-label", help="the tests asked for: labels that do not match")
    parser.add_argument(
        "--fail-on-skip-except",
        metavar="LABEL",
        action="append",
        help="exit 1 on a skip under another label; may be given several times",
    )
    parser.add_argument("--skips", action="store_true", help="print only how many were skipped, by label")
    arguments = parser.parse_args()

    expected = expected_binaries(arguments.build, arguments.label, arguments.exclude_label)
    summary = summarize(arguments.build / "test-results", expected)
    total = summary.total()
    if arguments.skips:
        counts = [f"{label} {totals.skipped}" for label, totals in sorted(summary.by_label.items())]
        print(f"skipped by label: {', '.join(counts)}")
        return 0

    print(table(summary))
    for label, test, message in summary.skips:
        print(f"skipped ({label}) {test}: {message}")
    for failure in summary.failures:
        print(f"FAILED {failure}")
    allowed = arguments.fail_on_skip_except
    refused = [skip for skip in summary.skips if allowed is not None and skip[0] not in allowed]
    is_skip_refused = len(refused) > 0
    if is_skip_refused:
        print(f"{len(refused)} skipped outside '{', '.join(allowed)}', expected none")
    ran = total.passed + total.failed
    if ran == 0:
        print("no test ran, expected at least one")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or ran == 0 or is_skip_refused else 0


if __name__ == "__main__":
    sys.exit(main())
