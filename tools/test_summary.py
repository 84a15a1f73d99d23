#!/usr/bin/env python3
"""Counts test cases in result files and prints, as the last line, `N passed, N failed`.

test_summary.py FILE...   FILE is a Meson log (testlog.json; cmocka's cases are counted one by one), JUnit XML (pytest), or
                          NAME=STATUS: a command that counts as one case, with its exit status.
Exit code 0 only if something passed and nothing failed. A file that is missing or holds nothing counts as one failure:
a suite that did not run is not a suite that passed.
"""
import json
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

CASE_OK = re.compile(r"^\[ +OK +\] (.+?)\s*$", re.M)
CASE_FAILED = re.compile(r"^\[ +FAILED +\] (.+?)\s*$", re.M)
CASE_SKIPPED = re.compile(r"^\[ +SKIPPED +\] (.+?)\s*$", re.M)
SUMMARY = re.compile(r"\d+ test\(s\)")  # cmocka's closing lines look like cases


def cases(pattern, text):
    return {name for name in pattern.findall(text) if not SUMMARY.search(name)}


def count_meson(path):
    passed, failed, skipped = 0, [], 0
    for line in path.read_text(errors="replace").splitlines():
        test = json.loads(line)
        text = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
        bad = cases(CASE_FAILED, text)
        good = cases(CASE_OK, text) - bad
        if test["result"] in ("OK", "EXPECTEDFAIL"):
            passed += max(1, len(good))
            skipped += len(cases(CASE_SKIPPED, text))
        elif test["result"] == "SKIP":
            skipped += 1
        else:
            passed += len(good)
            reason = f"{test['result'].lower()}, exit status {test.get('returncode')}"
            failed += [f"{test['name']}: {name}" for name in sorted(bad)] or [f"{test['name']} ({reason})"]
    return passed, failed, skipped


def count_junit(path):
    passed, failed, skipped = 0, [], 0
    for case in xml.parse(path).iter("testcase"):
        name = f"{case.get('classname')}: {case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count(argument):
    name, is_status, status = argument.rpartition("=")
    if is_status:
        return (1, [], 0) if status == "0" else (0, [f"{name} (exit status {status})"], 0)
    path = Path(argument)
    try:
        result = count_junit(path) if path.suffix == ".xml" else count_meson(path)
    except (OSError, ValueError, KeyError, xml.ParseError) as error:
        return 0, [f"{path}: no results ({error})"], 0
    return result if any(result) else (0, [f"{path}: no test ran"], 0)


def main():
    passed, failed, skipped = 0, [], 0
    for name in sys.argv[1:]:
        p, f, s = count(name)
        passed, failed, skipped = passed + p, failed + f, skipped + s
    for name in failed:
        print(f"FAILED {name}")
    print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if passed and not failed else 1


sys.exit(main())
