# SPDX-License-Identifier: BSD-2-Clause
"""Command lines of the benchmarks that are scripts: options, help, completion, errors and signals, as tools/common has
them for the commands in C.

    OPTIONS = [Option("sf", "double", 1.0, "scale factor"), ROUNDS, SMALLEST]
    main("tpch", USAGE_TEXT, OPTIONS, run)

run(options) has each option as an attribute ("rival-memory" is options.rival_memory), raises Failed, Skipped or
Usage with a text, or returns.
"""
import math
import os
import signal
import sys
import time
import types

EXIT_FAILED, EXIT_USAGE, EXIT_IMPOSSIBLE, EXIT_INTERRUPTED = 1, 2, 77, 130
ROUNDS_MAX = 99
U64_MAX = 2**64 - 1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HELP_COLUMN = 28
ARGUMENT_NAMES = {"flag": "", "string": " TEXT", "size": " SIZE", "number": " N", "double": " N"}


class Failed(Exception):
    """The benchmark failed, or moved wrong data: exit status 1."""


class Skipped(Exception):
    """The benchmark cannot run here: exit status 77."""


class Usage(Exception):
    """Invalid options: exit status 2."""


class Stopped(BaseException):
    """SIGINT, SIGTERM or SIGHUP: exit status 130, after the finally blocks."""


class Option:
    """kind: flag, string, number, size or double; or renamed: refused, and the default is the present name. low and high: the allowed range of numbers; high 0: any."""

    def __init__(self, name, kind, default, help_text, low=0, high=0):
        self.name, self.kind, self.default, self.help, self.low, self.high = name, kind, default, help_text, low, high

    def parse(self, text):
        """The value of a text, or None if it is not valid."""
        if self.kind == "string":
            return text
        value = {"number": parse_number, "size": parse_size, "double": parse_double}[self.kind](text)
        in_range = value is not None and (not self.high or self.low <= value <= self.high)
        return value if in_range else None

    def range_text(self):
        what, show = ("size", size_text) if self.kind == "size" else ("number", str)
        if self.high == U64_MAX:
            return "expected a %s of at least %s" % (what, show(self.low))
        return "expected a %s from %s to %s" % (what, show(self.low), show(self.high)) if self.high else "expected a " + what

    def default_text(self):
        """The largest number stands for "not given"; a help text that explains 0 or the default says enough."""
        value = self.default
        explained = "0: " in self.help or "default " in self.help
        if self.kind in ("number", "size") and (value == U64_MAX or (value == 0 and explained)):
            return ""
        if self.kind == "flag" or value in (None, ""):
            return ""
        show = {"string": str, "number": str, "double": "{:g}".format, "size": size_text}[self.kind]
        return " [%s]" % show(value)


ROUNDS = Option("rounds", "number", 3, "runs of each side", 1, ROUNDS_MAX)
SMALLEST = Option("smallest", "flag", False, "a second's worth, for tests")


def parse_number(text):
    return int(text) if text.isascii() and text.isdigit() and int(text) <= U64_MAX else None


def parse_double(text):
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and text.strip() == text and "_" not in text else None


def parse_size(text):
    """64K, 4G, 1.5G; 4GB is decimal."""
    digits = text.rstrip("BbIiKkMmGgTtPp")
    unit, power, decimal = text[len(digits):].upper(), 0, False
    if unit[:1] in tuple("KMGTP"):
        power, decimal, unit = "KMGTP".index(unit[0]) + 1, unit[1:] == "B", unit[1:]
    whole, _, fraction = digits.partition(".")
    if unit not in ("", "B", "IB") or (unit == "IB" and not power) or parse_number(whole) is None:
        return None
    if "." in digits and (not power or parse_number(fraction) is None):
        return None
    one = (1000 if decimal else 1024) ** power
    value = int(whole) * one + int(fraction or 0) * one // 10 ** len(fraction)
    return value if value <= U64_MAX else None


def size_text(value):
    """The exact size as an option takes it."""
    unit = ""
    for letter in "KMGTP":
        if not value or value % 1024:
            break
        value, unit = value // 1024, letter
    return "%d%s" % (value, unit)


def bytes_text(value):
    """Bytes for people: 4.0 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value /= 1024
    return "%.0f B" % value if unit == "B" else "%.1f %s" % (value, unit)


def style(stream, code):
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") not in ("", "dumb")
    return "\033[%sm" % code if wanted and stream.isatty() else ""


def error(text):
    progress_end()
    print("%sfathom:%s %s" % (style(sys.stderr, "1;31"), style(sys.stderr, "0"), text), file=sys.stderr)


# ---- progress ----

PROGRESS = {"since": None, "shown": False}


def progress(what, done, total):
    """Show how far a job is: on a terminal only, once it has taken a second."""
    now = time.monotonic()
    PROGRESS["since"] = PROGRESS["since"] or now
    elapsed = now - PROGRESS["since"]
    if elapsed < 1 or not done or not sys.stderr.isatty():
        return
    print("\r\033[K%s: %3.0f %%, %.0f s left" % (what, 100 * done / total, elapsed * (total - done) / done), end="",
          file=sys.stderr, flush=True)
    PROGRESS["shown"] = True


def progress_end():
    if PROGRESS["shown"]:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    PROGRESS.update(since=None, shown=False)


# ---- the command line ----

def print_help(name, text, options):
    print("usage: fathom %s [options]\n\n%s\n\noptions:" % (name, text))
    for option in [option for option in options if option.kind != "renamed"]:
        argument = ARGUMENT_NAMES[option.kind]
        width = len(option.name) + 4 + len(argument)
        print("  %s--%s%s%s%s%s%s" % (style(sys.stdout, "1"), option.name, style(sys.stdout, "0"), argument,
                                      " " * max(HELP_COLUMN - width, 1), option.help, option.default_text()))


def complete(options, words, word):
    """Print the options that begin with the word, unless it is the value of one."""
    valued = ["--" + option.name for option in options if option.kind != "flag"]
    if not word.startswith("-") or "--" in words or (words and words[-1] in valued):
        return
    pairs = [("--" + option.name, option.help) for option in options if option.kind != "renamed"]
    for name, help_text in pairs + [("--help", "explain the command"), ("--json", "print one line of JSON")]:
        if name.startswith(word):
            print("%s\t%s" % (name, help_text))


def find_option(options, name):
    """By its name, or by a beginning that no other option has."""
    found = [option for option in options if option.name == name]
    found = found or [option for option in options if option.name.startswith(name)]
    if len(found) != 1:
        raise Usage("%s option '--%s'" % ("ambiguous" if found else "unrecognized", name))
    return found[0]


def parse_words(options, words):
    """The values of all options. Returns None for --help."""
    values = {option.name: option.default for option in options}
    words = list(words)
    help_option = Option("help", "flag", False, "")
    while words:
        word = words.pop(0)
        if word == "-h":
            return None
        if not word.startswith("--") or word == "--":
            raise Usage("too many arguments" if not word.startswith("-") or word == "--" else "invalid option -- '%s'" % word[1:2])
        name, given, text = word[2:].partition("=")
        option = find_option(options + [help_option], name)
        if option is help_option:
            return None
        if option.kind == "renamed":
            raise Usage("--%s is --%s now" % (option.name, option.default))
        if option.kind == "flag":
            if given:
                raise Usage("option '--%s' doesn't allow an argument" % option.name)
            values[option.name] = True
            continue
        if not given and not words:
            raise Usage("option '--%s' requires an argument" % option.name)
        text = text if given else words.pop(0)
        values[option.name] = option.parse(text)
        if values[option.name] is None:
            raise Usage("--%s %s: %s" % (option.name, text, option.range_text()))
    return types.SimpleNamespace(**{name.replace("-", "_"): value for name, value in values.items()})


def stop(number, frame):
    """The first signal stops the benchmark in good order; a second one has its usual effect."""
    for caught in SIGNALS:
        signal.signal(caught, signal.SIG_DFL if caught == number else signal.SIG_IGN)
    raise Stopped


def call(name, run, options):
    """Run it; the exit status."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # which script.c holds back
        run(options)
        sys.stdout.flush()
        return 0
    except Usage as usage:
        error(usage)
        return EXIT_USAGE
    except Skipped as skipped:
        error("%s: %s" % (name, skipped))
        return EXIT_IMPOSSIBLE
    except (Failed, OSError) as failed:
        error("%s: %s" % (name, failed))
        return EXIT_FAILED
    except Stopped:
        return EXIT_INTERRUPTED
    finally:
        progress_end()


def main(name, text, options, run, group="bench "):
    """Parse sys.argv, run, and exit."""
    name = group + name
    words = sys.argv[1:]
    if words and words[0] == "--complete":
        complete(options, words[1:-1], words[-1])
        sys.exit(0)
    json = "--json" in words
    words = [word for word in words if word != "--json"]
    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        values = parse_words(options, words)
    except Usage as usage:
        error(usage)
        print("try: fathom %s --help" % name, file=sys.stderr)
        sys.exit(EXIT_USAGE)
    if values is None:
        print_help(name, text, options)
        sys.exit(0)
    values.json = json
    status = call(name, run, values)
    try:
        sys.stdout.flush()
    except OSError as full:
        error("cannot write to standard output: %s" % full.strerror)
        os._exit(status or EXIT_FAILED)
    sys.exit(status)
