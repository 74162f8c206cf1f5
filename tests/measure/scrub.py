#!/usr/bin/env python3
"""Measures what the filter for credentials takes out of texts. Needs Python's standard library only.

  scrub.py false  --broker BIN DIR...       how many of the real texts under DIR are altered; every alteration is shown,
                                            and texts that lose nothing but private keys are counted apart
  scrub.py leaks  --broker BIN DIR          how many of a checkout's leaks are found; DIR/.leaky-meta/secrets.csv counts them
  scrub.py found  --broker BIN RULES        how many examples of a gitleaks checkout's cmd/generate/config/rules are met
  scrub.py speed  --broker BIN              256 KiB with a thousand rules of an operator loaded
  scrub.py hostile --broker BIN             10 MiB of nothing but words, and of near-matches

BIN is a release build of host-broker; --home DIR gives it that home, with the formats that its broker.toml adds.
"""

import argparse
import json
import os
import pathlib
import random
import re
import resource
import string
import subprocess
import sys
import tempfile
import time

try:
    import re._parser as sre
except ImportError:
    import sre_parse as sre

TEXT_BYTES_MAX = 256 * 1024
TEXTS_PER_PACKAGE = 60
BINARY = {".gz", ".xz", ".zip", ".png", ".jpg", ".gif", ".ico", ".woff", ".woff2", ".ttf", ".bin", ".wasm", ".so", ".a"}


def scrub(broker, lines, home=None):
    """Gives every line (a value for `text`) to one run of the command and yields its answers."""
    command = [broker, "scrub", "--jsonl"] + (["--home", str(home)] if home else [])
    with tempfile.TemporaryFile("w+") as source, tempfile.TemporaryFile("w+") as target:
        for line in lines:
            source.write(json.dumps({"text": line}) + "\n")
        source.seek(0)
        done = subprocess.run(command, stdin=source, stdout=target, check=False)
        if done.returncode not in (0, 2):
            sys.exit(f"{command} ended with {done.returncode}")
        target.seek(0)
        for line in target:
            yield json.loads(line)


def texts(folders):
    """Texts of real projects: at most so many of one package, so that none decides alone."""
    for folder in map(pathlib.Path, folders):
        taken = {}
        for parent, below, names in os.walk(folder):
            below.sort()
            for name in sorted(names):
                path = pathlib.Path(parent, name)
                package = path.relative_to(folder).parts[:2]
                if path.suffix in BINARY or path.is_symlink() or taken.get(package, 0) >= TEXTS_PER_PACKAGE:
                    continue
                try:
                    text = path.read_bytes()[:TEXT_BYTES_MAX].decode("utf-8")
                except (OSError, UnicodeDecodeError):
                    continue
                if text.strip() and "\0" not in text:
                    taken[package] = taken.get(package, 0) + 1
                    yield str(path), text


def messages(repository):
    """The commit messages of a git repository."""
    done = subprocess.run(["git", "-C", repository, "log", "-2000", "--format=%B%x00"], capture_output=True, check=False)
    for number, text in enumerate(done.stdout.decode("utf-8", "replace").split("\0")):
        if text.strip():
            yield f"{repository} message {number}", text


def blobs(repository):
    """The newest version of each text in a git repository without a work tree."""
    listed = subprocess.run(["git", "-C", repository, "ls-tree", "-rl", "HEAD"], capture_output=True, text=True, check=False)
    rows = [line.split(None, 4) for line in listed.stdout.splitlines()]
    rows = [row for row in rows if len(row) == 5 and row[3].isdigit() and 0 < int(row[3]) <= TEXT_BYTES_MAX]
    random.Random(repository).shuffle(rows)
    for row in rows[:400]:
        done = subprocess.run(["git", "-C", repository, "cat-file", "blob", row[2]], capture_output=True, check=False)
        try:
            yield f"{repository}:{row[4]}", done.stdout.decode("utf-8")
        except UnicodeDecodeError:
            continue


def removed(before, after):
    """What each mark stands for, by walking along both texts."""
    mark = re.compile(r"<redacted: ([a-z0-9._ -]+), (\d+) bytes, #[0-9a-f]{8}>")
    at, last = 0, 0
    for hit in mark.finditer(after):
        at += hit.start() - last
        taken = before[at:].encode()[: int(hit[2])].decode("utf-8", "replace")
        yield hit[1], taken, before[max(0, at - 50) : at]
        at += len(taken)
        last = hit.end()


def false(arguments):
    named = list(texts(arguments.paths))
    for repository in arguments.git:
        named += list(messages(repository)) + list(blobs(repository))
    altered = keys = 0
    for (name, text), answer in zip(named, scrub(arguments.broker, (text for _, text in named), arguments.home)):
        if answer.get("altered") or "error" in answer:
            altered += 1
            # Keys for tests are private keys like others; finding them is right.
            keys += answer.get("kinds") == ["private key"]
            print(f"{name}: {answer.get('kinds', answer.get('error'))}")
            for kind, taken, before in list(removed(text, answer.get("text", "")))[:4]:
                print(f"    {kind}: {before[-40:]!r} >> {taken[:90]!r}")
    share = 100 / max(1, len(named))
    size = sum(len(text.encode()) for _, text in named)
    print(f"{altered} of {len(named)} texts altered ({altered * share:.3f} %), {size / 1e6:.1f} MB")
    print(f"true: private keys in {keys} of them; {altered - keys} others altered ({(altered - keys) * share:.3f} %)")


def leaks(arguments):
    [folder] = map(pathlib.Path, arguments.paths)
    rows = [line.split(",") for line in (folder / ".leaky-meta/secrets.csv").read_text().splitlines() if line[:1] not in ("", "#")]
    files = [(name, int(risks), (folder / name).read_text(errors="replace")) for name, risks, _ in rows if int(risks)]
    found, all_of_them = 0, 0
    for (name, risks, text), answer in zip(files, scrub(arguments.broker, (text for *_, text in files), arguments.home)):
        kept = set(answer.get("text", "").splitlines())
        # A key of several lines is one leak.
        met = sum(line not in kept for line in text.splitlines())
        found, all_of_them = found + min(met, risks), all_of_them + risks
        if met < risks:
            print(f"{name}: {met} of {risks} lines, {answer.get('kinds', answer.get('error'))}")
    print(f"{found} of {all_of_them} leaks found")


# --- the examples of a rule set's own tests: strings put together in Go


class Go:
    """Reads the few expressions of which the examples are made; what it does not know, it leaves out."""

    TOKEN = re.compile(r'\s+|//[^\n]*|"(?:\\.|[^"\\])*"|`[^`]*`|[A-Za-z_][\w.]*|\d+|.', re.S)
    CLASSES = {
        "Numeric": string.digits,
        "Hex": "0123456789abcdef",
        "AlphaNumeric": string.ascii_letters + string.digits,
        "AlphaNumericExtended": string.ascii_letters + string.digits + "=_-",
        "AlphaNumericExtendedShort": string.ascii_letters + string.digits + "_-",
        "AlphaNumericExtendedLong": string.ascii_letters + string.digits + "/=_+-",
        "Hex8_4_4_4_12": None,
    }

    def __init__(self, text, chance):
        found = self.TOKEN.findall(text)
        self.tokens = [token for token in found if not token.isspace() and not token.startswith("//")]
        self.at, self.chance = 0, chance

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def skip(self):
        """To the next comma or closing bracket of this list."""
        depth = 0
        while self.peek() and (depth or self.peek() not in ",)}"):
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(self.take(), 0)

    def list(self, end):
        values = []
        while self.peek() and self.peek() != end:
            values += self.value() or []
            if self.peek() == ",":
                self.take()
            elif self.peek() != end:
                self.skip()
        self.take()
        return values

    def value(self):
        """The strings that an expression may stand for."""
        values = self.part()
        while self.peek() == "+":
            self.take()
            more = self.part()
            values = [a + b for a in values for b in more] if values and more else []
        return values

    def part(self):
        token = self.take()
        if token.startswith("`"):
            return [token[1:-1]]
        if token.startswith('"'):
            try:
                return [json.loads(token.replace("\\'", "'"))]
            except ValueError:
                return []
        if token == "[" and self.peek() == "]":
            self.take(), self.take()
        if self.peek() == "{":
            self.take()
            return self.list("}")
        if self.peek() != "(":
            return []
        self.take()
        arguments = self.list(")")
        name = token.rsplit(".", 1)[-1]
        if name in self.CLASSES and arguments:
            return [f"{{{name}:{arguments[0]}}}"] if name != "Hex8_4_4_4_12" else []
        if name in ("NewSecret", "NewSecretWithEntropy"):
            return [self.secret(argument) for argument in arguments[:1]]
        if name == "Sprintf" and arguments:
            text = arguments[0]
            for argument in arguments[1:]:
                text = re.sub(r"%[sdv]", lambda _hit, argument=argument: argument, text, count=1)
            return [] if re.search(r"%[sdv]", text) else [text]
        if name.startswith("GenerateSampleSecret") and len(arguments) > 1:
            name, secret = arguments[:2]
            forms = ['{}_api_token = "{}"', "{}.token: {}\n", '"{}Token": "{}",', "export {}_TOKEN={}\n", "{}_key := `{}`"]
            return [form.format(name, secret) for form in forms]
        if name == "string":
            return arguments
        return []

    def secret(self, pattern):
        known = re.fullmatch(r"\{(\w+):(\d+)(?:,(\d+))?\}", pattern)
        if known:
            least = int(known[2])
            return "".join(self.chance.choice(self.CLASSES[known[1]]) for _ in range(least))
        try:
            return "".join(self.grow(node) for node in sre.parse(pattern))
        except (re.error, KeyError):
            return ""

    def grow(self, node):
        """A text that a parsed pattern matches."""
        kind, value = str(node[0]), node[1]
        if kind == "LITERAL":
            return chr(value)
        if kind == "IN":
            letters = ""
            for part, inner in value:
                if str(part) == "RANGE":
                    letters += "".join(map(chr, range(inner[0], inner[1] + 1)))
                elif str(part) == "CATEGORY":
                    letters += string.digits if "DIGIT" in str(inner) else string.ascii_letters + string.digits + "_"
                elif str(part) == "LITERAL":
                    letters += chr(inner)
            return self.chance.choice(letters or "x")
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            count = self.chance.randint(least, min(int(most), least + 8))
            return "".join(self.grow(part) for _ in range(count) for part in inner)
        if kind == "SUBPATTERN":
            return "".join(self.grow(part) for part in value[-1])
        if kind == "BRANCH":
            return "".join(self.grow(part) for part in self.chance.choice(value[1]))
        return ""


def examples(rules):
    """(rule, is it a credential, text) of every file of rules."""
    chance = random.Random(1)
    for path in sorted(pathlib.Path(rules).glob("*.go")):
        for function in path.read_text().split("\nfunc ")[1:]:
            rule = re.search(r'RuleID:\s+"([^"]+)"', function)
            if not rule:
                continue
            for name, is_credential in (("tps", True), ("fps", False)):
                for start in re.finditer(rf"\b{name}\s*:?=\s*(append\({name},|)", function):
                    go = Go(function[start.end() :], chance)
                    for text in go.list(")") if start[1] else go.value():
                        if text:
                            yield rule[1], is_credential, text


def found(arguments):
    known = [example for path in arguments.paths for example in examples(path)]
    tally = {}
    for (rule, is_credential, text), answer in zip(known, scrub(arguments.broker, (e[2] for e in known), arguments.home)):
        row = tally.setdefault(rule, [0, 0, 0, 0])
        row[0 if is_credential else 2] += bool(answer.get("altered"))
        row[1 if is_credential else 3] += 1
        if not is_credential and answer.get("altered"):
            print(f"taken out although it is none ({rule}): {text[:100]!r} {answer['kinds']}")
    for rule, (met, all_met, wrong, all_wrong) in sorted(tally.items()):
        if arguments.each and (met < all_met or wrong):
            print(f"{rule:44} found {met}/{all_met}, wrongly {wrong}/{all_wrong}")
    met, all_met, wrong, all_wrong = (sum(column) for column in zip(*tally.values()))
    whole = sum(row[0] == row[1] > 0 for row in tally.values())
    some = sum(row[1] > 0 for row in tally.values())
    print(f"{met} of {all_met} credentials found, all of {whole} of {some} rules; {wrong} of {all_wrong} others altered")


# --- how long it takes


def timed(name, broker, lines, home=None):
    start = time.monotonic()
    answers = list(scrub(broker, lines, home))
    took = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    kinds = sorted({kind for answer in answers for kind in answer.get("kinds", [answer.get("error")])})
    print(f"{name:44} {took:7.2f} s, peak so far {peak:6.0f} MiB, {kinds[:3]}")
    return took


def operator_home(folder, count):
    rows = [
        f"[[filter.credentials]]\nkind = 'service {n} token'\nwords = ['svc{n:04}_']\n"
        f"pattern = '''\\bsvc{n:04}_[A-Za-z0-9]{{32,64}}\\b'''\n"
        for n in range(count)
    ]
    pathlib.Path(folder, "broker.toml").write_text("".join(rows))


def speed(arguments):
    letters = string.ascii_letters + string.digits
    chance = random.Random(2)
    words = ["the", "request", "failed", "with", "status", "retrying", "token=", "key:", "{", "}", "\n"]
    prose = ""
    while len(prose) < TEXT_BYTES_MAX:
        prose += chance.choice(words) + " "
        if chance.random() < 0.001:
            prose += "svc%04d_" % chance.randrange(1000) + "".join(chance.choices(letters, k=40)) + " "
    prose = prose[:TEXT_BYTES_MAX]
    with tempfile.TemporaryDirectory() as folder:
        operator_home(folder, 1000)
        least = timed("start, a thousand rules", arguments.broker, ["x"], folder)
        many = timed("256 KiB, forty times", arguments.broker, [prose] * 40, folder)
        print(f"256 KiB with a thousand rules: {1000 * (many - least) / 39:.1f} ms")
        every = "".join(f"svc{n:04}_" + "".join(chance.choices(letters, k=40)) + "\n" for n in range(1000))
        once = timed("one token of each of the thousand", arguments.broker, [every], folder)
        twice = timed("the same ten times", arguments.broker, [every] * 10, folder)
        print(f"each of a thousand rules met: first {1000 * (once - least):.0f} ms, then {1000 * (twice - once) / 9:.1f} ms")
    timed("start, no home", arguments.broker, ["x"])


def hostile(arguments):
    size = 10 << 20
    listed = pathlib.Path(__file__).parents[2] / "host-broker/filter/src/values/rules.toml"
    words = re.findall(r'"([^"\s]+)"', " ".join(re.findall(r"^words = (.*)$", listed.read_text(), re.M)))
    words += ["ghp_", "xoxb-", "sk-", "-----BEGIN PRIVATE KEY-----", "eyJhbGciOi", "://", "authorization: bearer "]
    units = {
        "every word in turn": "".join(words),
        "every word, spaced": " ".join(words) + "\n",
        "near: gitlab": "glpat-aaaaaaaaaaaaaaaaaaa ",
        "near: aws secret": "secret_access_key = 'aaaaaaaaaaaaaaaaaaaa",
        "endless: gitlab": "glpat-" + "k7Qz" * 100,
        "marks": "<redacted: slack token, 8 bytes, #0a1b2c3d>",
        "entities": "&#x67;&#103;&amp;",
        "escapes": "\\x67\\u{67}\\147",
        "quoted": "=67=3D=\n",
        "digits": "6b:37:",
        "url": "a://b:c",
    }
    for name, unit in units.items():
        timed(name, arguments.broker, [unit * (size // len(unit))], arguments.home)
    alone = [word * (size // 8 // len(word)) for word in words]
    timed(f"each of {len(words)} words alone, 1.25 MiB each", arguments.broker, alone, arguments.home)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["false", "leaks", "found", "speed", "hostile"])
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--broker", required=True)
    parser.add_argument("--home")
    parser.add_argument("--git", action="append", default=[], help="a repository whose messages and texts count too")
    parser.add_argument("--each", action="store_true", help="name the rules of which examples are missed")
    arguments = parser.parse_intermixed_args()
    {"false": false, "leaks": leaks, "found": found, "speed": speed, "hostile": hostile}[arguments.what](arguments)


if __name__ == "__main__":
    main()
