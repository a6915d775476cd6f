"""Every lecture: what it links to, names and runs is there, and no number of it is typed.

What scripts found stands in blocks, what a formula gives in values (see `lab.lectures`); the rest
of a page is prose. In prose a number may be written if it is whole and below 100, an input (α .8),
part of a name (Theorem 3.8), given or claimed in a question, or shown elsewhere on the page.
"""

import contextlib
import io
import re
from functools import cache, partial
from importlib import import_module

import pytest
from script_runs import FOLDER, script

from lab.homework.tasks import tasks
from lab.lectures import BLOCK, VALUE, blocks, with_values

ROOT = FOLDER.parent
LECTURES = sorted((ROOT / "lectures").glob("[0-9]*.md"))
PAGES = [*LECTURES, *sorted(set((ROOT / "lectures").rglob("*.md")) - set(LECTURES))]

FENCE = re.compile(r"^(?:> ?)?```(\w*)\n(.*?)^(?:> ?)?```$", re.M | re.S)
PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```$)?", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
QUESTION = re.compile(r"<summary>.*?</summary>", re.S)
NUMBER = re.compile(r"(?<![\w.])(?:\d[\d,]*)?\.?\d+(?![\w.]*\d)")
INPUT = r"(?:\d|\d?\.\d\d?)(?![\w.]*\d)"  # a number that somebody chose: two decimals at most
INPUTS = re.compile(
    rf"(?<!\w)(?:α|β|c|ĉ|v|T|w|temperature|top-p)(?: =| of)? {INPUT}"
    rf"(?:(?:,| and| or| to) {INPUT})*"
)
NAMES = re.compile(
    r"(?:Theorem|Thm|Corollary|Lemma|Definition|[Ss]ection|[Aa]ppendix|Figure|Table|Python|arXiv)"
    r"s? (?:A\.)?\d[\d.]*(?: and \d[\d.]*)?|\b\d+[MB]\b"
)
YEARS = range(1990, 2035)


def each(pages):
    return pytest.mark.parametrize(
        "page", pages, ids=lambda page: str(page.relative_to(ROOT / "lectures"))
    )


def text_of(page):
    return page.read_text(encoding="utf-8")


def without_code(text):
    """The page as it is read: no fences, no comments."""
    return re.sub(r"<!--.*?-->", "", FENCE.sub("", text), flags=re.S)


def prose(text):
    """The sentences of a page: no blocks, values, code, formulas, questions, names or inputs."""
    text = VALUE.sub("", BLOCK.sub("", text))
    text = QUESTION.sub("", without_code(text))
    text = re.sub(r"^    .*$", "", text, flags=re.M)  # a formula
    text = " ".join(LINK.sub(r"\1", SPAN.sub("", text)).split())
    return INPUTS.sub("", NAMES.sub("", text))


def numbers(text):
    """Numbers as they are written, with the percent sign if they have one."""
    for found in NUMBER.finditer(text):
        yield found[0], text[found.end() :].lstrip()[:1] == "%"


def value(number):
    return float(number.replace(",", ""))


def typed(text):
    """The numbers of a page that nothing on it vouches for."""
    shown = [body["body"] for body in BLOCK.finditer(text)]
    shown += [found["shown"] for found in VALUE.finditer(text)]
    shown += [part for block in PYTHON.findall(text) for part in block]
    shown += SPAN.findall(FENCE.sub("", text))
    known = {value(number) for part in shown for number, _ in numbers(part)}
    known |= {100 * value(number) for part in shown for number, _ in numbers(part)}  # as percent
    return [
        number
        for number, percent in numbers(prose(text))
        if ("." in number or percent or value(number) >= 100)
        and value(number) not in known
        and value(number) not in YEARS
    ]


def slugs(text):
    """The anchors of a page's headings, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def resolved(name):
    """Whatever `lab.module.name` names, a field of a dataclass included."""
    *parents, last = name.split(".")
    for count in range(len(parents) + 1, 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found = import_module(".".join([*parents, last][:count]))
            break
    for part in [*parents, last][count:]:
        if part in getattr(found, "__dataclass_fields__", {}):
            return None
        found = getattr(found, part)
    return found


# ---- The rules themselves ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("So a round has 3.36 tokens.", ["3.36"]),
        ("So a round has 3.36 tokens: `3.36`.", []),
        ("<!--= theory.expected_tokens(0.8, 4) | .2f -->3.36<!--/--> tokens, or 3.36.", []),
        ("It has 811,008 weights, of 1024.", ["811,008", "1024"]),
        ("Leviathan et al. 2023, Theorem 3.8 and section 3.5, nine rows, 12 layers, γ 16.", []),
        ("With α .8, c .05 and T = .7 it is .9.", [".9"]),
        ("α .5 and .9, c = 0.05 to 0.2; α = .5, .7 or .9", []),
        ("α = .941, and c is .28", [".941", ".28"]),
        ("It gains 8 %.", ["8"]),
        ("```python\nprint(0.0825)\n```\nIt gains 8.25 %.", []),
        ('<summary>"It is 3.2 times." Is it?</summary>\n\nNo, 3.1.', ["3.1"]),
        ("    E = 1.5\n\nas above, 1.6", ["1.6"]),
        ("see [lecture 1](01_x.5.md), `speclab hw 2.3`", []),
    ],
)
def test_a_number_that_nothing_vouches_for_is_found(sentence, found):
    assert typed(sentence) == found


def test_names_are_found_or_missed():
    assert resolved("lab.theory.expected_tokens")
    assert resolved("lab.text.Text.commit")
    resolved("lab.text.Round.emitted")
    for missing in ("lab.theory.expected_token", "lab.text.Text.undo", "lab.nothing"):
        with pytest.raises((AttributeError, ModuleNotFoundError)):
            resolved(missing)


# ---- What a page points to --------------------------------------------------------------------


@each(PAGES)
def test_links_and_images_are_there(page):
    for words, link in LINK.findall(FENCE.sub("", text_of(page))):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        there = page.parent / file if file else page
        assert there.exists(), link
        assert words.strip(), f"{link} has no words"
        if anchor:
            assert anchor in slugs(text_of(there)), link


@each(PAGES)
def test_names_in_code_are_there(page):
    text = text_of(page)
    for span in SPAN.findall(FENCE.sub("", text)):
        for name in re.findall(r"^lab(?:\.\w+)+", span):
            resolved(name)
        for path in re.findall(r"^(?:lab|scripts|tests|lectures)/[\w./]+", span):
            assert (ROOT / path).exists(), span
        for number in re.findall(r"^speclab hw (\d\.\d)", span):
            assert number in tasks(), span
    for name in re.findall(r"\b\d\d_\w+\.py\b", text):
        assert (FOLDER / name).is_file(), name
    for one in blocks(text):
        assert (FOLDER / f"{one.script}.py").is_file(), one.script
    for number in re.findall(r"\bscript (\d\d)\b", text):
        assert list(FOLDER.glob(f"{number}_*.py")), number
    for number in re.findall(r"\b[Ll]ectures? (\d+)\b", text):
        assert 1 <= int(number) <= len(LECTURES), number


# ---- What a page shows ------------------------------------------------------------------------


@each(PAGES)
def test_nothing_is_left_to_fill_in(page):
    text = text_of(page)
    for one in blocks(text):
        assert one.body.strip(), one.source
    for found in VALUE.finditer(text):
        assert found["shown"], found["expression"]
    comments = 2 * len(BLOCK.findall(text)) + 2 * len(VALUE.findall(text))
    assert FENCE.sub("", text).count("<!--") == comments, "a comment that is no block and no value"
    assert not re.search(r"TODO|FIXME|XXX|\?\?\?", text)


@each(PAGES)
def test_values_are_what_their_expressions_give(page):
    text = text_of(page)
    assert with_values(text) == text


@each(LECTURES)
def test_no_number_is_typed(page):
    assert not typed(text_of(page))


@each(LECTURES)
def test_its_code_runs_and_prints_what_is_shown(page):
    names = {"__name__": page.stem}
    for code, shown in PYTHON.findall(text_of(page)):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, page.name, "exec"), names)
        assert out.getvalue() == shown, code


# ---- How a page is made -----------------------------------------------------------------------


@each(LECTURES)
def test_it_has_all_its_parts_in_their_order(page):
    text = text_of(page)
    assert text.startswith(f"# {int(page.stem[:2])}. ")
    parts = [
        r"^\*\*The question\.\*\* .*\?", r"^\*\*Before you start\.\*\* ", r"^\|[-: |]+\|$",
        r"^## Check yourself$", r"^## Takeaways$", r"^\*\*Homework\.\*\* ", r"^\*\*Scripts?\.\*\* ",
    ]  # fmt: skip
    places = [re.search(part, text, re.M | re.S) for part in parts]
    assert all(places), [part for part, found in zip(parts, places, strict=True) if not found]
    starts = [found.start() for found in places]
    assert starts == sorted(starts)
    takeaways = text[starts[4] : starts[5]]
    assert 3 <= len(re.findall(r"^- ", takeaways, re.M)) <= 5
    assert re.search(r"`speclab hw \d\.\d`", text[starts[5] :])


@each(LECTURES)
def test_it_asks_questions_and_folds_the_answers(page):
    text = text_of(page)
    asked = text[text.index("## Check yourself") : text.index("## Takeaways")]
    folded = re.findall(
        r"^<details>\n<summary>(.*?)</summary>\n\n(.*?)\n</details>$", asked, re.M | re.S
    )
    assert 3 <= len(folded) <= 5
    assert len(folded) == text.count("<details>") == text.count("</details>")
    for question, answer in folded:
        assert question.rstrip().endswith(("?", ".")), question
        assert len(without_code(answer).split()) >= 5, question


@each(LECTURES)
def test_it_leads_to_the_next(page):
    later = LECTURES[LECTURES.index(page) + 1 :]
    last = re.search(r"^\*\*Next\.\*\* (.*?)\Z", text_of(page), re.M | re.S)
    if later:
        assert f"({later[0].name})" in last[1]


@each(LECTURES)
def test_its_lines_fit_and_its_comments_do_not_break_paragraphs(page):
    """A line that begins with a value would begin a block of HTML."""
    text = text_of(page)
    assert not re.search(r"^<!--[=/]", text, re.M)
    for line in BLOCK.sub("", text).splitlines():
        assert line.startswith("|") or len(re.sub(r"<!--.*?-->", "", line)) <= 100, line


def test_they_are_numbered_in_order():
    assert [int(page.stem[:2]) for page in LECTURES] == list(range(1, len(LECTURES) + 1))


# ---- What the scripts say ---------------------------------------------------------------------


@cache
def makers():
    """`faults`, and the reports of scripts run with --fast, each once."""
    names = script("make_lectures")
    return names["faults"], cache(partial(names["report_of"], fast=True))


@pytest.mark.slow
def test_blocks_are_what_the_scripts_say():
    """Sampled cells within five standard errors of a difference: some hundred cells, so a false
    alarm has a chance below 1e-4. One test, so that each script runs once."""
    faults, report = makers()
    found = {page.name: faults(text_of(page), report) for page in PAGES}
    assert not {name: wrong for name, wrong in found.items() if wrong}
