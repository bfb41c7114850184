"""Agents in processes of their own: the coordinator never holds the weights, and one may die on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedpact as fp
from fedpact.negotiation import agents_of, coordinate, processes
from fedpact.negotiation.processes import Processes, load_agent, save_agent

SAME = 1e-6
SAME_BY_CLIMBING = 1e-5  # in sums: the root of the gain that is left
N_AGENTS = 4


def federation() -> fp.Federation:
    rng = np.random.default_rng(5)
    weights = rng.uniform(0.1, 2.0, (N_AGENTS, N_AGENTS))
    weights[0, 3] = -0.05
    np.fill_diagonal(weights, 1.0)
    return fp.Federation(
        weights,
        costs=fp.Quadratic(rng.uniform(0.005, 0.03, N_AGENTS), rng.uniform(0.0, 1e-3, N_AGENTS)),
        caps=[50.0, 2.0, np.inf, 40.0],
        payoff=fp.PowerLaw(rng.uniform(0.1, 0.6, N_AGENTS)),
        names=["A", "B", "C", "D"],
        values=rng.uniform(0.5, 2.0, N_AGENTS),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One file per agent."""
    folder = tmp_path_factory.mktemp("agents")
    for agent in agents_of(federation()):
        save_agent(agent, folder / f"{agent.index}.json")
    return [folder / f"{place}.json" for place in range(N_AGENTS)]


class Punctual(Processes):
    """A channel whose time is up as soon as all have answered but those known to be late: no test waits for it."""

    def __init__(self, commands: list[list[str]], *, late: set[int]) -> None:
        self._late: set[int] = set()  # everybody says hello
        self._passed = 0.0
        super().__init__(commands, timeout=600.0, patience=600.0)
        self._late = late

    def clock(self) -> float:
        return time.monotonic() + self._passed

    def _exchange(self, workers: Sequence[Any], timeout: float) -> None:  # type: ignore[override]
        only_late = {self._workers.index(worker) for worker in workers} <= self._late
        super()._exchange(workers, 0.1 if only_late else timeout)
        self._passed += timeout if only_late else 0.0


@pytest.fixture
def punctual(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Punctual]:
    """Start agents of which some are known to be late; those that do not end by themselves are killed soon."""
    monkeypatch.setattr(processes, "EXIT_TIMEOUT", 0.5)

    def start(commands: list[list[str]], *, late: set[int]) -> Punctual:
        made = Punctual.__new__(Punctual)
        monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=made.clock))
        made.__init__(commands, late=late)  # type: ignore[misc]
        return made

    return start


def assert_is_the_deal_of(deal: Any, members: list[int], *, tol: float = SAME) -> None:
    """The deal is M^E's among those at the table, and balances."""
    expected = fp.ExternalityMechanism().solve(federation().take(members))
    size = float(np.abs(expected.payments).max() + np.abs(expected.payoffs).max())
    if tol == SAME:
        np.testing.assert_allclose(deal.contributions[members], expected.contributions, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(deal.payments[members], expected.payments, atol=tol * size)
    absent = np.setdiff1d(np.arange(N_AGENTS), members)
    np.testing.assert_array_equal(deal.contributions[absent], 0.0)
    np.testing.assert_array_equal(deal.payments[absent], 0.0)
    assert abs(deal.payments.sum()) <= 1e-12 * np.abs(deal.payments).sum()


def test_an_agent_s_file_holds_its_own_row_only(files: list[Path]) -> None:
    for place, path in enumerate(files):
        agent = load_agent(path)
        np.testing.assert_array_equal(agent.weights[0], federation().weights[place])
        text = path.read_text(encoding="utf-8")
        others = [row for other, row in enumerate(federation().weights) if other != place]
        assert not any(f"{number!r}" in text for row in others for number in row.tolist() if number != 1.0)


COORDINATOR = """
import json, sys
from pathlib import Path
from fedpact.negotiation import coordinate
from fedpact.negotiation.processes import Processes
def refuse(event, given):
    assert event != "open" or str(given[0]) not in sys.argv[1:], "the coordinator opens no agent's file"
sys.addaudithook(refuse)
with Processes.of_files([Path(name) for name in sys.argv[1:]]) as channel:
    deal = coordinate(channel)
    said = {"names": list(channel.names), "started": list(channel.process_ids)}
said |= {name: getattr(deal, name).tolist() for name in ("contributions", "payments")}
print(json.dumps(said | {"excluded": dict(deal.excluded), "rounds": deal.rounds}))
"""


@pytest.mark.slow
def test_agents_agree_and_the_coordinator_s_process_never_holds_the_weights(files: list[Path]) -> None:
    """A coordinator that is told nothing but the files' names, and may not open them; it leaves no process behind."""
    ran = subprocess.run(
        [sys.executable, "-c", COORDINATOR, *map(str, files)], check=True, capture_output=True, text=True
    )
    said = json.loads(ran.stdout)
    assert said["names"] == ["A", "B", "C", "D"]
    assert said["excluded"] == {}
    assert said["rounds"] <= 15
    found = {name: np.array(said[name]) for name in ("contributions", "payments")}
    assert_is_the_deal_of(SimpleNamespace(**found), [0, 1, 2, 3])
    assert not any(Path(f"/proc/{process}").exists() for process in said["started"])


@pytest.mark.slow
def test_agents_agree_in_sums(files: list[Path]) -> None:
    """Every process draws what its masks are made from; the coordinator's never sees an answer that it could read."""
    with Processes([[*OURS, str(path)] for path in files]) as channel:
        deal = coordinate(channel, protocol="sums")
    assert not deal.excluded
    expected = fp.ExternalityMechanism().solve(federation())
    size = float(np.abs(expected.payoffs).sum() + expected.costs.sum())
    np.testing.assert_allclose(deal.payments, expected.payments, rtol=0.0, atol=1e-5 * size)
    assert float(deal.payments.sum()) == 0.0


@pytest.mark.slow
def test_agents_with_several_lots_agree(tmp_path: Path) -> None:
    lots = fp.Federation(
        [[1.0, 0.4, 0.3, 0.6], [0.5, 0.2, 1.0, 0.1], [0.3, 0.3, 0.3, 1.0]],
        lot_owners=["A", "A", "B", "C"],
        task_owners=["A", "B", "C"],
        costs=[0.01, 0.004, 0.02, 0.02],
        caps=[9.0, np.inf, 20.0, 20.0],
        payoff=fp.PowerLaw(beta=0.4),
    )
    paths = [tmp_path / f"{place}.json" for place in range(3)]
    for agent, path in zip(agents_of(lots), paths, strict=True):
        save_agent(agent, path)
    with Processes.of_files(paths, timeout=600.0, patience=600.0) as channel:
        deal = coordinate(channel)
    np.testing.assert_allclose(deal.payments, fp.ExternalityMechanism().solve(lots).payments, atol=SAME)
    assert deal.lot_owners == ("A", "A", "B", "C") and deal.provenance.settled_by == "message game"


@pytest.mark.slow
def test_agents_that_start_late_are_heard_all_the_same(files: list[Path]) -> None:
    """What they say of themselves then comes with the first answer, and is not taken for it."""
    with Processes.of_files(files, timeout=60.0, patience=0.0) as channel:
        assert list(channel.names) == ["agent 0", "agent 1", "agent 2", "agent 3"]
        deal = coordinate(channel)
    assert not deal.excluded
    assert_is_the_deal_of(deal, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("protocol", "after"),
    [
        pytest.param("price-discovery", 1, marks=pytest.mark.slow),
        pytest.param("price-discovery", 2, marks=pytest.mark.slow),
        pytest.param("price-discovery", 3, marks=pytest.mark.slow),
        pytest.param("sums", 1, marks=pytest.mark.slow),
        pytest.param("sums", 4, marks=pytest.mark.slow),
    ],
)
def test_an_agent_killed_on_the_way_is_out_and_the_others_agree(files: list[Path], protocol: str, after: int) -> None:
    with Processes.of_files(files, timeout=60.0) as channel:
        victim = channel.process_ids[2]
        asked = 0
        plain_ask = channel.ask

        def ask(questions):
            nonlocal asked
            asked += 1
            if asked == after + 1:
                os.kill(victim, signal.SIGKILL)
            return plain_ask(questions)

        channel.ask = ask  # type: ignore[method-assign]
        deal = coordinate(channel, protocol=protocol)
    assert deal.excluded == {"C": "fails to answer: its process has ended"}
    told = [event for event in deal.trace if event["event"] in {"asked again", "excluded"}]
    assert [(event["event"], event["agent"]) for event in told] == [("asked again", "C"), ("excluded", "C")]
    assert_is_the_deal_of(deal, [0, 1, 3], tol=SAME if protocol == "price-discovery" else SAME_BY_CLIMBING)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["price-discovery", "sums"])
def test_a_slow_agent_is_late_and_its_late_answers_are_not_mixed_up(files: list[Path], punctual, protocol: str) -> None:
    """It answers every question a question too late: it is asked once more, then excluded."""
    slow = (
        "import sys\n"
        "from pathlib import Path\n"
        "from fedpact.negotiation import processes\n"
        "say, kept = processes._say, []\n"
        "def later(entry):\n"
        "    kept.append(entry)\n"
        "    if 'index' in entry or len(kept) > 1: say(kept.pop(0))\n"
        "processes._say = later\n"
        "processes.serve(Path(sys.argv[1]))\n"
    )
    commands = [[*OURS, str(path)] for path in files]
    commands[1] = [sys.executable, "-c", slow, str(files[1])]
    with punctual(commands, late={1}) as channel:
        deal = coordinate(channel, protocol=protocol)
    assert deal.excluded == {"B": "no answer in time"}
    assert_is_the_deal_of(deal, [0, 2, 3], tol=SAME if protocol == "price-discovery" else SAME_BY_CLIMBING)


OURS = [sys.executable, "-m", "fedpact.negotiation.processes"]
HELLO = 'import sys, time; print(\'{"name": "Eve"}\', flush=True)\n'
MISBEHAVING = {
    "nonsense": "for line in sys.stdin: print('what?', flush=True)",
    "null": "for line in sys.stdin: print('null', flush=True)",
    "deep": "for line in sys.stdin: print('[' * 100000, flush=True)",
    "not text": "for line in sys.stdin: sys.stdout.buffer.write(bytes([255, 254, 10])); sys.stdout.buffer.flush()",
    "flood": "while True: sys.stdout.write('{}' * 1000 + chr(10))",
    "one endless line": "while True: sys.stdout.write('9' * 60000)",
    "old answers": "while True: print('{\"number\": 0}', flush=True)",
    "deaf": "time.sleep(600)",
    "gone": "sys.exit(3)",
}


@pytest.mark.slow
def test_processes_that_misbehave_are_out_and_keep_nobody_waiting(tmp_path: Path, monkeypatch, punctual) -> None:
    """All of them at one table with three that do not."""
    monkeypatch.setattr(processes, "MAX_LINE", 1 << 20)  # a shorter line is endless too
    rng = np.random.default_rng(8)
    n, honest = 3 + len(MISBEHAVING), [0, 1, 2]
    everybody = fp.Federation(rng.uniform(0.1, 2.0, (n, n)), costs=0.02, caps=50.0, payoff=fp.PowerLaw(0.3))
    commands = []
    for agent in agents_of(everybody)[:3]:
        save_agent(agent, tmp_path / f"{agent.index}.json")
        commands.append([*OURS, str(tmp_path / f"{agent.index}.json")])
    for manner, manners in MISBEHAVING.items():
        commands.append([sys.executable, "-c", HELLO.replace("Eve", manner) + manners])
    late = {3 + place for place, manner in enumerate(MISBEHAVING) if manner in {"deaf", "old answers"}}
    with punctual(commands, late=late) as channel:
        assert list(channel.names[3:]) == list(MISBEHAVING)
        deal = coordinate(channel)
        started = list(channel.process_ids)
    assert not any(Path(f"/proc/{process}").exists() for process in started)  # some do not end by themselves
    assert set(deal.excluded) == set(MISBEHAVING)
    assert deal.excluded["gone"] == "fails to answer: its process has ended"
    assert deal.excluded["deaf"] == deal.excluded["old answers"] == "no answer in time"
    expected = fp.ExternalityMechanism().solve(everybody.take(honest))
    np.testing.assert_allclose(deal.contributions[honest], expected.contributions, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(deal.payments[honest], expected.payments, atol=1e-6)


def test_an_agent_that_does_not_listen_to_a_long_question_keeps_nobody_waiting(punctual) -> None:
    """The question does not fit into the pipe."""
    attentive = "for line in sys.stdin: print(line, end='', flush=True)"
    commands = [[sys.executable, "-c", HELLO + manners] for manners in (attentive, "time.sleep(600)")]
    question = {"number": 1, "kind": "prices", "contributions": [1.0] * N_AGENTS}
    long = question | {"padding": "x" * 10_000_000}
    with punctual(commands, late={1}) as channel:
        answers = channel.ask({0: question, 1: long})
        assert list(answers) == [0]
        assert answers[0]["number"] == 1
        assert list(channel.ask({0: question | {"number": 2}})) == [0]


def test_a_command_that_cannot_be_started_is_refused_and_the_others_end(files: list[Path], tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    waiting = f"open({str(mark)!r}, 'w').close(); sys.stdin.read(); import os; os.remove({str(mark)!r})"
    commands = [[sys.executable, "-c", HELLO + waiting], [str(tmp_path / "no such program")]]
    with pytest.raises(fp.InvalidInput, match=r"member 1 cannot be started by .*: No such file"):
        Processes(commands)
    assert not mark.exists()


def greeting(entry: str) -> list[str]:
    return [sys.executable, "-c", f"print({entry!r}, flush=True); import sys; sys.stdin.read()"]


def test_an_agent_in_another_s_place_is_refused() -> None:
    with pytest.raises(fp.InvalidInput, match="member 0 says that its place is 1; start members in order"):
        Processes([greeting(f'{{"name": "A", "index": {place}}}') for place in (1, 0)], patience=60.0)


def test_agents_who_give_one_name_are_told_apart() -> None:
    said = ['{"name": "A"}', '{"name": "A"}', '{"name": "agent 1"}', '{"name": 7}', "[]", '{"name": " "}']
    with Processes([greeting(entry) for entry in said], patience=60.0) as channel:
        assert channel.names[0] == "A"
        assert len(set(channel.names)) == len(said)
        assert list(channel.names[3:]) == ["agent 3", "agent 4", "agent 5"]


def test_what_is_no_agent_s_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"name": "A"}', encoding="utf-8")
    with pytest.raises(fp.InvalidInput, match=r"x\.json: this is no member's file"):
        load_agent(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"index": 4}, "index must be a place from 0 to 3, got 4"),
        ({"index": True}, "index must be a place"),
        ({"name": " "}, "name must be a text of 1 to 200 characters"),
        ({"weights": [[1.0, 2.0]]}, r"weights\[0\] must be a number, got \[1.0, 2.0\]"),
        ({"weights": []}, "weights must be a list of finite numbers"),
        ({"weights": [1.0, -1.0, 1.0, 1.0]}, r"weights\[1\] must be at least 0, got -1: its own data does not harm it"),
        ({"payoff": None}, "payoff must be a table with the keys family, .*, got None"),
        ({"payoff": {"family": "x"}}, "payoff.family must be one of power-law, exponential, log, michaelis, got 'x'"),
        ({"payoff": {"family": "power-law"}}, "payoff.beta is missing; payoff needs the keys family, beta"),
        ({"payoff": {"family": "power-law", "beta": -1}}, "payoff.beta must be positive, got -1"),
        ({"value": 0}, "value must be positive, got 0"),
        ({"value": 10**400}, "value must be below 1.8e308"),
        ({"cap": -1.0}, "cap must be at least zero, got -1"),
        ({"linear": 0.0, "quadratic": 0.0}, "linear must be positive"),
        ({"cap": "many"}, "cap must be a number, got 'many'"),
    ],
)
def test_a_private_file_that_people_spoiled_is_refused_in_words(
    files: list[Path], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    record = json.loads(files[1].read_text())
    (tmp_path / "x.json").write_text(json.dumps(record | changes))
    with pytest.raises(fp.InvalidInput, match=rf"x\.json: {message}"):
        load_agent(tmp_path / "x.json")


def test_an_agent_survives_its_file(tmp_path: Path) -> None:
    for agent in agents_of(federation()):
        save_agent(agent, tmp_path / "a.json")
        again = load_agent(tmp_path / "a.json")
        question = {"number": 1, "kind": "prices", "contributions": [1.0, 2.0, 3.0, 4.0]}
        assert again.answer(question) == agent.answer(question)
        assert again.caps.tolist() == agent.caps.tolist()
