"""From YAML text to plain values that remember their lines, with the meaning of YAML 1.2 and without its surprises.

The parser's events are composed here, iteratively: duplicate keys, depth, aliases and words that other YAML versions
read otherwise are findings with a line, never a silent choice, and no input can recurse or grow without bound.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NoReturn

import yaml
from msgspec import Struct, field
from yaml.error import MarkedYAMLError, YAMLError
from yaml.reader import Reader, ReaderError

from orchestrator.model.findings import FileFindings, Finding
from orchestrator.runbook.words import Odd, misread_word, resolve

MAX_DEPTH = 32
MAX_NODES = 50_000
Path = tuple[str | int, ...]
# Line ends to YAML 1.1 and to libyaml, signs like others to YAML 1.2; and a mark that libyaml swallows.
_HIDDEN = re.compile("[\x85\u2028\u2029\ufeff]")


class Scalar(Struct):
    line: int
    text: str
    plain: bool
    size: int = 1


class Items(Struct):
    line: int
    nodes: list[Node] = field(default_factory=list)
    size: int = 1


class Entries(Struct):
    line: int
    pairs: list[tuple[Scalar, Node]] = field(default_factory=list)
    pending: Scalar | None = None
    size: int = 1


Node = Scalar | Items | Entries


class Document(Struct, frozen=True):
    """Plain values (dict, list, str, int, Decimal, bool, None), the line of each path, and what was odd on the way."""

    value: object
    lines: dict[Path, int]
    findings: tuple[Finding, ...]

    def line(self, path: Path) -> int:
        """The line of the path, or of the nearest thing above it that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


@lru_cache(maxsize=1)
def read_document(text: str, path: str) -> Document:
    """Read one YAML document; the last one is kept, because lint asks for the lines of what was just loaded.

    Raises FileFindings when it is no YAML, or not one document of bounded size."""
    root = _Composer(path).compose(text)
    reading = _Reading()
    value = reading.plain(root, ())
    return Document(value, reading.lines, tuple(reading.findings))


class _Composer:
    """Events in, one tree out; whatever ends the reading raises FileFindings."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stack: list[Items | Entries] = []
        self._anchors: dict[str, Node] = {}
        self._names: list[str | None] = []
        self._root: Node | None = None
        self._total = 0

    def compose(self, text: str) -> Node:
        if hidden := _HIDDEN.search(text):
            sign = f"\\u{ord(hidden[0]):04x}"
            seen = f"the character {sign}, which nobody sees, and which ends a line or is nothing to some readers"
            self._stop(_line(text, hidden), seen, "a text that all read alike", f'delete it, or write "{sign}"')
        try:
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                self._take(event)
        except ReaderError:
            odd = Reader.NON_PRINTABLE.search(text)
            sign = f"the character {ord(odd[0]):#06x}" if odd else "a character"
            line = _line(text, odd) if odd else 1
            self._stop(line, f"{sign} cannot be in YAML", "printable text", "delete the character")
        except MarkedYAMLError as error:
            self._not_yaml(error, text)
        except (YAMLError, ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError) as error:
            # The parser gives way in these manners on some malformed input; the reader needs a sentence in each case.
            self._stop(
                1, f"this is not YAML: {type(error).__name__}", "a YAML mapping", "compare with runbooks/template.yaml"
            )
        if self._root is None:
            self._stop(1, "the file is empty", "a runbook", "copy runbooks/template.yaml and fill it in")
        return self._root

    def _take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        match type(event).__name__:
            case "DocumentStartEvent" if self._root is not None:
                self._second_document(line)
            case "ScalarEvent":
                self._plain_tag(event, line)
                self._put(Scalar(line, event.value, not event.style), event.anchor)
            case "SequenceStartEvent":
                self._plain_tag(event, line)
                self._open(Items(line), event.anchor)
            case "MappingStartEvent":
                self._plain_tag(event, line)
                self._open(Entries(line), event.anchor)
            case "SequenceEndEvent" | "MappingEndEvent":
                self._put(self._stack.pop(), self._names.pop())
            case "AliasEvent":
                self._alias(str(event.anchor), line)
            case _:
                pass  # the begin and end of the stream and of its one document

    def _plain_tag(self, event: Any, line: int) -> None:
        if event.tag is not None:
            self._stop(line, f"the tag {event.tag}", "values without tags", "leave the tag out; quote what is text")

    def _open(self, node: Items | Entries, anchor: str | None) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._too_deep(node.line)
        self._stack.append(node)
        self._names.append(anchor)

    def _alias(self, name: str, line: int) -> None:
        node = self._anchors.get(name)
        if node is None:
            self._stop(line, f"the alias *{name} has no anchor before it", f"&{name} above", "define the anchor first")
        self._put(node, None, line)

    def _put(self, node: Node, anchor: str | None, line: int | None = None) -> None:
        self._total += node.size if line is not None else 1
        if self._total > MAX_NODES:
            self._stop(
                line or node.line, f"more than {MAX_NODES} values", "a runbook of some hundred", "use fewer aliases"
            )
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        parent.size += node.size
        if isinstance(parent, Items):
            parent.nodes.append(node)
        elif parent.pending is not None:
            parent.pairs.append((parent.pending, node))
            parent.pending = None
        elif isinstance(node, Scalar):
            parent.pending = Scalar(line or node.line, node.text, node.plain)
        else:
            self._stop(node.line, "a list or mapping as a key", "a text as a key", "write the key as one word")

    def _not_yaml(self, error: MarkedYAMLError, text: str) -> None:
        mark = error.problem_mark or error.context_mark
        lines = text.rstrip("\n").split("\n")
        # What is missing at the end is missing behind the last line.
        line = min(mark.line + 1, len(lines)) if mark else 1
        here = lines[line - 1]
        if "\t" in here[: len(here) - len(here.lstrip())]:
            self._stop(line, "a tab in the indentation", "blanks", "replace the tab by blanks")
        problem = " ".join(str(error.problem or error.context or "malformed").split())
        if "nesting depth" in problem:
            self._too_deep(line)
        if "Unicode character escape" in problem:
            seen = "an escape that is no whole character"
            self._stop(line, seen, "whole characters", "write the character itself")
        if "<document start>" in problem:
            self._second_document(line)
        if mark and problem.startswith("found ") and mark.column < len(here):
            problem += f" ({here[mark.column]!r})"
        self._stop(
            line,
            f"this is not YAML: {problem}",
            "YAML",
            "mend the line, or the one above it (brackets, quotes, blanks)",
        )

    def _second_document(self, line: int) -> NoReturn:
        self._stop(line, "a second YAML document", "one document", "put each runbook into a file of its own")

    def _too_deep(self, line: int) -> NoReturn:
        self._stop(line, f"nested deeper than {MAX_DEPTH} levels", "a flat runbook", "check the brackets")

    def _stop(self, line: int, seen: str, expected: str, next: str) -> NoReturn:
        raise FileFindings(self._path, [Finding(line, seen, expected, next)])


class _Reading:
    """Nodes to plain values, noting lines and all that another reader of YAML would take for something else."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.findings: list[Finding] = []

    def plain(self, node: Node, path: Path) -> object:
        self.lines.setdefault(path, node.line)
        match node:
            case Scalar():
                return self._scalar(node, path)
            case Items():
                return [self.plain(n, (*path, i)) for i, n in enumerate(node.nodes)]
            case Entries():
                return self._mapping(node, path)

    def _mapping(self, node: Entries, path: Path) -> dict[str, object]:
        value: dict[str, object] = {}
        first: dict[str, int] = {}
        for key, item in node.pairs:
            self._check_key(key, path)
            if key.text in value:
                seen = f"duplicate key {key.text!r}, first on line {first[key.text]}"
                self._note(key.line, seen, "each key once", "delete one of the two")
                continue
            first[key.text] = key.line
            self.lines[(*path, key.text)] = key.line
            value[key.text] = self.plain(item, (*path, key.text))
        return value

    def _check_key(self, key: Scalar, path: Path) -> None:
        # `null: false` says of a column that it holds no NULL; there the word is one of ours.
        ours = key.text == "null" and bool(path[:1] == ("contract",) or path[:2] == ("table", "before"))
        if key.plain and not ours and (kind := misread_word(key.text)):
            shown = key.text or "(nothing)"
            self._note(
                key.line, f"the key {shown} reads as {kind}", f'the text "{key.text}"', f'quote it: "{key.text}"'
            )

    def _scalar(self, node: Scalar, path: Path) -> object:
        if not node.plain:
            return node.text
        value = resolve(node.text)
        if _in_value_map(path):
            return self._mapped(node, value)
        if isinstance(value, Odd):
            self._misread(node, value.kind)
            return node.text
        return value

    def _mapped(self, node: Scalar, value: object) -> str | None:
        """The right side of a value map: text, NULL written as ~, or a whole number in its only spelling."""
        if value is None and node.text:
            return None
        if not node.text:
            self._note(node.line, "nothing after the key", "a value", 'write ~ for NULL, "" for the empty text')
        elif (kind := misread_word(node.text)) and (isinstance(value, bool) or not isinstance(value, int)):
            self._misread(node, kind)
        return node.text

    def _misread(self, node: Scalar, kind: str) -> None:
        self._note(node.line, f"{node.text} reads as {kind}", f'the text "{node.text}"', f'quote it: "{node.text}"')

    def _note(self, line: int, seen: str, expected: str, next: str) -> None:
        self.findings.append(Finding(line, seen, expected, next))


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1


def _in_value_map(path: Path) -> bool:
    return path[:1] == ("mappings",) and ("values" in path or path[-1] == "null_value")
