"""Transcripts: what is written is what was said, and playing it back ends in the same deal, bit for bit."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.deals import Deal
from fedpact.deals.deal_file import deal_record
from fedpact.deals.transcript import Header, Recording, read_transcript
from fedpact.negotiation import InProcess, agents_of, coordinate, recompute
from fedpact.negotiation.coordinator import transcript_header
from fedpact.scenario import example


def header_of(federation: fp.Federation, protocol: str = "price-discovery") -> Header:
    return transcript_header(federation.names, protocol=protocol, title="A test", scenario=federation.fingerprint)


def record(path: Path, channel: Any, header: Header) -> Deal:
    """Negotiate on record: from the beginning, or from whatever is there."""
    return coordinate(
        channel,
        protocol=header.protocol,
        title=header.title,
        scenario=header.scenario,
        transcript=path,
    )


def resume(path: Path, channel: Any) -> Deal:
    """Go on from what must be there."""
    header = read_transcript(path).header
    return coordinate(channel, title=header.title, scenario=header.scenario, transcript=path, resume=True)


def assert_same(one: Deal, other: Deal) -> None:
    assert deal_record(one) == deal_record(other)  # floats in it are compared exactly
    assert one.trace == other.trace
    for name in ("contributions", "payments", "prices"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert (one.provenance.messages is None) == (other.provenance.messages is None)
    if one.provenance.messages is not None and other.provenance.messages is not None:
        assert one.provenance.messages.proposals.tobytes() == other.provenance.messages.proposals.tobytes()
        assert one.provenance.messages.prices.tobytes() == other.provenance.messages.prices.tobytes()


@pytest.fixture(scope="module")
def hospitals() -> fp.Federation:
    return example("hospitals").federation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "said.jsonl"


# Written and played back


@pytest.mark.parametrize(("name", "protocol"), [("hospitals", "price-discovery"), ("paper-w1", "price-discovery")])
def test_a_transcript_comes_to_the_same_deal(path: Path, name: str, protocol: str) -> None:
    federation = example(name).federation
    deal = record(path, InProcess.of(federation), header_of(federation, protocol))
    assert_same(deal, fp.negotiate(federation, protocol=protocol))  # to be on record changes nothing
    transcript = read_transcript(path)
    assert transcript.header == header_of(federation, protocol)
    assert transcript.deal == deal_record(deal)
    assert transcript.count == len(path.read_text().splitlines()) - 2
    assert_same(deal, recompute(transcript))


class Falters:
    """An agent that is truthful a few times, and then says something else."""

    def __init__(self, agent: Any, times: int, otherwise: Callable[[dict[str, Any]], Any]) -> None:
        self.name, self._agent, self._times, self._otherwise = agent.name, agent, times, otherwise

    def answer(self, question: dict[str, Any]) -> Any:
        self._times -= 1
        return self._agent.answer(question) if self._times >= 0 else self._otherwise(question)


@pytest.mark.parametrize(
    "otherwise",
    [
        lambda question: None,
        lambda question: {"leave": True},
        lambda question: {"number": question["number"], "proposal": np.ones(5), "payoff": 1.0, "cost": 1.0},
        lambda question: object(),
    ],
)
def test_who_is_excluded_is_excluded_again(hospitals: fp.Federation, path: Path, otherwise: Any) -> None:
    agents: list[Any] = list(agents_of(hospitals))
    agents[4] = Falters(agents[4], 3, otherwise)
    deal = record(path, InProcess(agents), header_of(hospitals))
    assert list(deal.excluded) == ["Clinic"]
    assert_same(deal, recompute(path))


# Interrupted and gone on


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.slow
def test_cut_anywhere_it_goes_on_to_the_same_end(hospitals: fp.Federation, path: Path) -> None:
    deal = record(path, InProcess.of(hospitals), header_of(hospitals))
    whole = lines_of(path)
    for kept in range(1, len(whole)):  # the deal is the last line: it is never kept whole
        rest = len(whole[kept])
        for part in (0, 1, rest // 2, rest - 2):
            path.write_bytes(b"".join(whole[:kept]) + whole[kept][:part])
            assert read_transcript(path).count == kept - 1
            assert_same(deal, resume(path, InProcess.of(hospitals)))
            assert lines_of(path) == whole


def test_a_line_is_on_disk_before_its_answers_are_used(hospitals: fp.Federation, path: Path) -> None:
    with Recording.begin(InProcess.of(hospitals), path, header_of(hospitals)) as recorder:
        for number in range(1, 4):
            recorder.ask({0: {"number": number, "kind": "introduce"}})
            assert read_transcript(path).count == number


def test_only_what_is_new_is_asked(hospitals: fp.Federation, path: Path) -> None:
    record(path, InProcess.of(hospitals), header_of(hospitals))
    path.write_bytes(b"".join(lines_of(path)[:4]))
    live = InProcess.of(hospitals)
    asked = []

    def ask(questions: Mapping[int, dict[str, Any]]) -> Mapping[int, Any]:
        asked.append(questions[0]["number"])
        return InProcess.ask(live, questions)

    resume(path, SimpleNamespace(names=live.names, ask=ask))
    assert asked[0] == 4


def test_a_listener_hears_that_a_negotiation_goes_on(hospitals: fp.Federation, path: Path) -> None:
    events: list[Any] = []
    deal = fp.negotiate(hospitals, transcript=path, listener=events.append)
    assert events == list(deal.trace)
    exchanges = len(lines_of(path)) - 2
    for kept, over in ((exchanges - 1, False), (exchanges, True)):
        path.write_bytes(b"".join(lines_of(path)[: 1 + kept + over]))
        events.clear()
        assert_same(deal, fp.negotiate(hospitals, transcript=path, listener=events.append))
        assert events[0] == {"event": "resumed", "exchanges": kept, "over": over}
        assert events[1:] == ([] if over else list(deal.trace))


def test_begun_anew_in_place_of_what_is_there(hospitals: fp.Federation, path: Path) -> None:
    path.write_text("my notes\n")
    with pytest.raises(fp.InvalidInput, match="line 1: must be valid JSON"):
        fp.negotiate(hospitals, transcript=path)
    assert path.read_text() == "my notes\n"
    assert_same(fp.negotiate(hospitals, transcript=path, resume=False), recompute(path))


def test_a_stated_deal_that_does_not_follow_is_refused(hospitals: fp.Federation, path: Path) -> None:
    fp.negotiate(hospitals, transcript=path)
    changed(path, len(lines_of(path)), lambda entry: entry["deal"]["payments"].__setitem__(0, 0.5))
    with pytest.raises(fp.InvalidInput, match="states another deal than its exchanges come to"):
        fp.negotiate(hospitals, transcript=path)


# Questions of another machine, and of another negotiation


def changed(path: Path, line: int, change: Callable[[dict[str, Any]], None]) -> None:
    entries = [json.loads(text) for text in path.read_text().splitlines()]
    change(entries[line - 1])
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def scaled(by: float) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        for question in entry["questions"].values():
            question["contributions"] = [number * by for number in question["contributions"]]

    return change


def test_rounding_of_another_machine_is_no_other_question(hospitals: fp.Federation, path: Path) -> None:
    deal = record(path, InProcess.of(hospitals), header_of(hospitals))
    changed(path, 4, scaled(1.0 + 1e-13))
    assert_same(deal, recompute(path))


@pytest.mark.parametrize(
    "change",
    [
        scaled(1.001),
        lambda entry: entry["questions"]["0"].update(kind="proximal"),
        lambda entry: entry["questions"]["0"].update(contributions=["a"] * 5),
        lambda entry: entry["questions"]["0"].pop("contributions"),
        lambda entry: (entry["questions"].pop("0"), entry["answers"].pop("0")),
    ],
)
def test_another_question_is_an_error(hospitals: fp.Federation, path: Path, change: Any) -> None:
    record(path, InProcess.of(hospitals), header_of(hospitals))
    changed(path, 4, change)
    with pytest.raises(fp.InvalidInput, match=r"said\.jsonl: line 4: the questions are not those that follow"):
        recompute(path)


def test_a_changed_answer_changes_what_follows(hospitals: fp.Federation, path: Path) -> None:
    record(path, InProcess.of(hospitals), header_of(hospitals))
    changed(path, 3, lambda entry: entry["answers"]["1"]["lots"][0].update(marginal_cost=0.02))
    with pytest.raises(fp.InvalidInput, match="line 4: the questions are not those that follow"):
        recompute(path)


def test_a_transcript_that_ends_early(hospitals: fp.Federation, path: Path) -> None:
    record(path, InProcess.of(hospitals), header_of(hospitals))
    path.write_bytes(b"".join(lines_of(path)[:3]))
    with pytest.raises(fp.InvalidInput, match="broke off after 2 exchanges"):
        recompute(path)


def test_a_transcript_that_goes_on(hospitals: fp.Federation, path: Path) -> None:
    record(path, InProcess.of(hospitals), header_of(hospitals))
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines[:-1], lines[-2]]))
    with pytest.raises(fp.InvalidInput, match=f"line {len(lines)}: the negotiation was over before this exchange"):
        recompute(path)


# Files that are no transcripts


FIRST = json.dumps({"transcript": 3, "mechanism": "externality", "protocol": "price-discovery", "agents": ["A"],
                    "title": "", "scenario": None, "consent": True})  # fmt: skip
EXCHANGE = '{"questions": {"0": {"number": 1}}, "answers": {"0": 1}}'
BROKEN = "an exchange must have questions and answers to them"


def first(**other: Any) -> str:
    return json.dumps(json.loads(FIRST) | other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file holds no transcript"),
        ('{"transcript": 3, "pro', "the file holds no transcript"),
        ('{"mechanism": "externality"}\n', 'line 1: a transcript must begin with {"transcript": 3, ...}'),
        ("[1]\n", "line 1: must be a JSON object, got [1]"),
        ("nonsense\n", "line 1: must be valid JSON: Expecting value, column 1"),
        ("\xff\n", "line 1: must be UTF-8 text"),
        (first(transcript=1) + "\n", "line 1: transcripts of version 3 can be read, got 1"),
        (first(protocol=["sums"]) + "\n", "line 1: protocol must be the name of a protocol"),
        (first(consent=1) + "\n", "line 1: consent must be true or false, got 1"),
        (first(agents=[]) + "\n", "line 1: agents must be a list of names"),
        (first(title=None) + "\n", "line 1: title must be a text"),
        (f"{FIRST}\n{EXCHANGE[:-1]}\n{EXCHANGE}\n", "line 2: must be valid JSON"),
        (f'{FIRST}\n{{"questions": {{}}, "answers": [1]}}\n', BROKEN),
        (FIRST + "\n" + EXCHANGE.replace('"0"', '"1"') + "\n", BROKEN),
        (f'{FIRST}\n{{"questions": {{}}, "answers": {{"0": 1}}}}\n', BROKEN),
        (f'{FIRST}\n{EXCHANGE.replace(": 1}}", ": NaN}}")}\n', 'line 2: JSON has no NaN; it is written "inf"'),
        (f'{FIRST}\n{EXCHANGE.replace(": 1}}", ": " + "[" * 100000 + "}}")}\n', "line 2: must"),
        (f'{FIRST}\n{{"deal": 1}}\n', "line 2: deal must be a JSON object, got 1"),
        (f'{FIRST}\n{{"deal": {{}}}}\n{EXCHANGE}\n', "line 3: nothing may follow the deal"),
    ],
)  # fmt: skip
def test_what_is_no_transcript(path: Path, text: str, message: str) -> None:
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(fp.InvalidInput) as error:
        read_transcript(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_transcript_of_rules_that_are_not_known_is_refused_by_name(path: Path) -> None:
    for rules, message in (
        ({"protocol": "haggling"}, "protocol must be one of price-discovery, sums, got 'haggling'"),
        ({"mechanism": "fair"}, "protocol price-discovery negotiates mechanism externality or shapley, and not 'fair'"),
    ):
        path.write_text(first(**rules) + "\n")
        with pytest.raises(fp.InvalidInput, match=message) as error:
            recompute(path)
        assert str(error.value).startswith(f"{path}: ")


def test_files_that_cannot_be_read_or_written(hospitals: fp.Federation, tmp_path: Path) -> None:
    with pytest.raises(fp.InvalidInput, match="there is no such file"):
        read_transcript(tmp_path / "none.jsonl")
    with pytest.raises(fp.InvalidInput, match="this is a folder"):
        read_transcript(tmp_path)
    for place in (tmp_path, tmp_path / "none" / "said.jsonl"):
        with pytest.raises(fp.InvalidInput, match=str(place)):
            Recording.begin(InProcess.of(hospitals), place, header_of(hospitals))


def test_a_transcript_that_cannot_grow_is_one_error(hospitals: fp.Federation, path: Path) -> None:
    """What is left in the buffer must not raise again when the file is closed."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    recorder = Recording.begin(InProcess.of(hospitals), path, header_of(hospitals))
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
    full = r"said\.jsonl: the transcript cannot be written: File too large"
    try:
        with pytest.raises(fp.InvalidInput, match=full), recorder:
            recorder.ask({0: {"number": 1, "kind": "introduce"}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
