"""How far long work is: heard by the nearest listener, by nobody where there is none."""

from __future__ import annotations

import threading

import pytest

from fedpact.utils.progress import listen_to_progress, report_progress


def test_without_a_listener_nothing_happens():
    report_progress("nobody hears this")


def test_the_nearest_listener_hears_it():
    outer: list[str] = []
    inner: list[str] = []
    with listen_to_progress(outer.append):
        report_progress("first")
        with listen_to_progress(inner.append):
            report_progress("second")
        report_progress("third")
    report_progress("fourth")
    assert (outer, inner) == (["first", "third"], ["second"])


def test_an_error_within_leaves_no_listener_behind():
    told: list[str] = []
    with pytest.raises(ValueError, match="within"), listen_to_progress(told.append):
        raise ValueError("within")
    report_progress("afterwards")
    assert told == []


def test_a_listener_that_raises_stops_the_work():
    def stop(what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listen_to_progress(stop):
        report_progress("a step")


def test_other_threads_do_not_hear_it():
    told: list[str] = []
    with listen_to_progress(told.append):
        other = threading.Thread(target=report_progress, args=("elsewhere",))
        other.start()
        other.join()
    assert told == []
