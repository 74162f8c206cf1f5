#!/usr/bin/env python3
"""How often the inspection is wrong: real texts that it suspects, and attacks that it does not.

    inspection.py --program target/release/host-broker --honest DIR... --attacks NAME=PATH...

Honest texts are files below a directory: READMEs, documentation, comments of source files, logs, and issue threads in
`*.issues.jsonl` ({"text": …} a line); of a git repository, its commit messages and documents. Attacks are collections: a text file with one attack a
line or, if it has empty lines, a paragraph each; JSON, JSONL or YAML-like files of which every long string counts; or
a directory of those. Each text belongs to the tuning or the held-out half by the digest of what it says.

`--show tune` prints the errors in the tuning half, for who works on the detectors: honest texts that were suspected and
attacks that were not.
"""

import argparse
import collections
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

DOCUMENTS = (".md", ".rst", ".txt", ".adoc", ".html", ".log", ".csv", ".changelog")
SOURCES = {".rs": "//", ".js": "//", ".ts": "//", ".go": "//", ".c": "//", ".h": "//", ".py": "#", ".sh": "#", ".toml": "#"}
TEXT_BYTES_MIN, TEXT_BYTES_MAX = 40, 256 * 1024


def kind_of(name):
    lower = name.lower()
    if lower.startswith("readme"):
        return "readme"
    if lower.startswith(("changelog", "changes", "news", "history")):
        return "changelog"
    if lower.endswith((".log",)) or lower in ("syslog", "dmesg", "messages"):
        return "log"
    return "document"


def comments(path, mark):
    """The comments of a source file, as one text."""
    lines = []
    for line in read(path).splitlines():
        stripped = line.strip()
        if stripped.startswith((mark, "*", "/*")):
            lines.append(stripped.lstrip("/*#! "))
    return "\n".join(lines)


def read(path):
    try:
        with open(path, "rb") as file:
            data = file.read(TEXT_BYTES_MAX)
    except OSError:
        return ""
    return "" if b"\0" in data else data.decode("utf-8", "replace").rstrip("\ufffd")


def git(repository, *arguments):
    run = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, check=False)
    return run.stdout.decode("utf-8", "replace")


def of_repository(repository, limit):
    """Commit messages, and the documents of the newest commit."""
    log = git(repository, "log", "--format=%B%x00", f"-{limit}")
    for message in log.split("\0"):
        yield "commit message", message.strip()
    for line in git(repository, "ls-tree", "-r", "-z", "HEAD").split("\0"):
        if "\t" not in line:
            continue
        head, path = line.split("\t", 1)
        name = os.path.basename(path)
        if name.lower().endswith(DOCUMENTS) or name.lower().startswith("readme"):
            blob = subprocess.run(["git", "-C", repository, "cat-file", "blob", head.split()[2]], capture_output=True, check=False)
            data = blob.stdout[:TEXT_BYTES_MAX]
            if b"\0" not in data:
                yield kind_of(name), data.decode("utf-8", "replace").rstrip("\ufffd")


def honest(directory, limit):
    if os.path.exists(os.path.join(directory, "HEAD")) or os.path.exists(os.path.join(directory, ".git")):
        yield from of_repository(directory, limit)
        return
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                continue
            mark = SOURCES.get(os.path.splitext(name)[1])
            if name.endswith(".issues.jsonl"):
                for line in read(path).splitlines():
                    yield "issue", json.loads(line)["text"]
            elif mark:
                yield "source comments", comments(path, mark)
            elif name.lower().endswith(DOCUMENTS) or kind_of(name) != "document" or name == "copyright":
                yield kind_of(name), read(path)


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)


def attacks(path):
    if os.path.isdir(path):
        for folder, _, files in os.walk(path):
            for name in sorted(files):
                yield from attacks(os.path.join(folder, name))
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if path.endswith(".jsonl"):
        for line in text.splitlines():
            yield from strings(json.loads(line))
    elif path.endswith(".json"):
        yield from strings(json.loads(text))
    else:
        parts = re.split(r"\n\s*\n", text) if re.search(r"\n\s*\n", text) else text.splitlines()
        yield from (part.strip() for part in parts)


def verdicts(program, texts):
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:
        for text in texts:
            lines.write(json.dumps({"text": text}) + "\n")
        lines.seek(0)
        run = subprocess.run([*program, "inspect", "--jsonl", "-"], stdin=lines, capture_output=True, check=True)
    answers = [json.loads(line) for line in run.stdout.decode().splitlines()]
    assert len(answers) == len(texts), f"{len(texts)} texts, {len(answers)} answers"
    return answers


def half(text):
    return "tune" if hashlib.sha256(text.encode("utf-8", "replace")).digest()[0] % 2 == 0 else "held out"


def rate(part, whole):
    return f"{part:>6} {100 * part / max(whole, 1):>6.2f} %"


def measure_honest(arguments):
    seen, texts = set(), []
    for directory in arguments.honest:
        taken = collections.Counter()
        for kind, text in honest(directory, arguments.limit):
            text = text.encode("utf-8", "replace").decode("utf-8")
            if len(text) >= TEXT_BYTES_MIN and text not in seen and taken[kind] < arguments.limit:
                seen.add(text)
                taken[kind] += 1
                texts.append((kind, text))
    answers = verdicts(arguments.program, [text for _, text in texts])
    counts, reasons = collections.Counter(), collections.Counter()
    for (kind, text), answer in zip(texts, answers):
        for name in (kind, "all"):
            counts[half(text), name, "texts"] += 1
            counts[half(text), name, answer["verdict"]] += 1
        reasons.update((half(text), reason) for reason in answer["reasons"])
        if answer["verdict"] != "clean" and arguments.show == half(text).split()[0]:
            print("---", kind, answer["verdict"], *answer["reasons"], "\n" + (text if len(text) < 600 else text[:300]))
    print(f"{'honest texts':<30}{'half':<10}{'texts':>7}   suspicious         hostile")
    for name in sorted({key[1] for key in counts}, key=lambda name: (name == "all", name)):
        for part in ("tune", "held out"):
            total = counts[part, name, "texts"]
            print(f"{name:<30}{part:<10}{total:>7}", rate(counts[part, name, "suspicious"], total), rate(counts[part, name, "hostile"], total))
    print("reasons:", ", ".join(f"{reason} {count} ({part})" for (part, reason), count in sorted(reasons.items())))


def measure_attacks(arguments):
    print(f"{'attacks':<40}{'half':<10}{'texts':>7}   not clean           hostile")
    for collection in arguments.attacks:
        name, path = collection.split("=", 1)
        texts = list(dict.fromkeys(text for text in attacks(path) if len(text) >= TEXT_BYTES_MIN))
        counts = collections.Counter()
        for text, answer in zip(texts, verdicts(arguments.program, texts)):
            for part in (half(text), "all"):
                counts[part, "texts"] += 1
                counts[part, answer["verdict"]] += 1
            if answer["verdict"] == "clean" and arguments.show == half(text).split()[0]:
                print("--- missed", name, "\n" + (text if len(text) < 600 else text[:300]))
        for part in ("tune", "held out", "all"):
            total, hostile = counts[part, "texts"], counts[part, "hostile"]
            print(f"{name:<40}{part:<10}{total:>7}", rate(counts[part, "suspicious"] + hostile, total), rate(hostile, total))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, nargs="+", help="the broker's program")
    parser.add_argument("--honest", nargs="*", default=[], metavar="DIR")
    parser.add_argument("--attacks", nargs="*", default=[], metavar="NAME=PATH")
    parser.add_argument("--limit", type=int, default=3000, help="how many texts of a kind a directory gives at most")
    parser.add_argument("--show", choices=("tune", "held"), help="print the errors in that half")
    arguments = parser.parse_args()
    if arguments.honest:
        measure_honest(arguments)
    if arguments.attacks:
        measure_attacks(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
