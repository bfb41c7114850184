"""Weights kept in a CSV or NPZ file beside the scenario."""

import io
import json
import re
import zipfile
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp

from fedpact import InvalidInput
from fedpact.scenario import load_scenario
from fedpact.scenario.reading import parse_scenario

MATRIX = [[1.0, 0.25], [-3e-5, 2.0]]


@pytest.fixture
def load(tmp_path):
    """Load a scenario whose weights stand in a file with the given content."""

    def load(name, content, **changes):
        (tmp_path / name).write_bytes(content)
        document = {"weights": name, "costs": 1.0, "payoff": {"family": "log"}} | changes
        (tmp_path / "deal.json").write_text(json.dumps(document))
        return load_scenario(tmp_path / "deal.json").federation

    return load


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def sparse_npz(matrix):
    buffer = io.BytesIO()
    sp.save_npz(buffer, matrix)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b",North,South\nNorth,1,0.25\nSouth,-3e-5,2\n",
        b"\xef\xbb\xbf,North,South\r\nNorth,1.0,0.25\r\nSouth,-0.00003,2.0\r\n\r\n,,\r\n",
        ";North;South;\nNorth;1,0;25 %;\nSouth;-0,00003;2;\n".encode("utf-16"),
        b'receiver,"North", South\n\n"North", 1.0, 0.25\n"South", -3e-05, 2.0',
    ],
)
def test_csv_with_names(load, content):
    federation = load("w.csv", content)
    assert federation.names == ("North", "South")
    assert federation.weights.tolist() == MATRIX


def test_csv_with_names_along_the_top_alone(load):
    federation = load("w.csv", b"North;South\n1,0;0,25\n-0,00003;2\n")
    assert federation.names == ("North", "South")
    assert federation.weights.tolist() == MATRIX


def test_csv_without_names(load):
    federation = load("W.CSV", b"1.0,0.25\n-3e-5,2.0\n", names=["North", "South"])
    assert federation.names == ("North", "South")
    assert federation.weights.tolist() == MATRIX
    assert load("w.csv", b"1.0,0.25\n-3e-5,2.0\n").names == ("agent 0", "agent 1")


def test_csv_names_may_be_numbers_or_span_lines(load):
    assert load("w.csv", b',7,"8\n9"\n7,1,0\n"8\n9",0,1\n').names == ("7", "8\n9")


def test_names_may_stand_in_both_files(load):
    content = b",North,South\nNorth,1,0\nSouth,0,1\n"
    assert load("w.csv", content, names=["North", "South"]).names == ("North", "South")
    with pytest.raises(InvalidInput, match=r"names\[1\] must agree with the weights file: 'Sud' here, 'South' there"):
        load("w.csv", content, names=["North", "Sud"])
    with pytest.raises(InvalidInput, match="names must agree with the weights file: 1 names here, 2 there"):
        load("w.csv", content, names=["North"])


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int8])
def test_npz_of_a_dense_matrix(load, kind):
    federation = load("w.npz", npz(weights=np.array([[1, 2], [-3, 4]], dtype=kind)))
    assert federation.weights.tolist() == [[1.0, 2.0], [-3.0, 4.0]]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz_of_a_sparse_matrix(load, kind):
    federation = load("w.npz", sparse_npz(sp.coo_array(MATRIX).asformat(kind)))
    assert federation.weights.tolist() == MATRIX


def test_files_outside_the_scenarios_folder_are_read_only_where_that_is_allowed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "deals").mkdir()
    (tmp_path / "data" / "w.csv").write_text("1,0\n0,1\n")
    (tmp_path / "deals" / "a.toml").write_text('weights = "../data/w.csv"\ncosts = 1\npayoff.family = "log"\n')
    deal = tmp_path / "deals" / "a.toml"
    with pytest.raises(InvalidInput, match=r"a file in the scenario's own folder, got '../data/w.csv'"):
        load_scenario(deal)
    assert load_scenario(deal, files_from=tmp_path / "data").federation.n_agents == 2
    (tmp_path / "deals" / "w.csv").symlink_to(tmp_path / "data" / "w.csv")
    deal.write_text(deal.read_text().replace("../data/w.csv", "w.csv"))
    with pytest.raises(InvalidInput, match="own folder"):
        load_scenario(deal)
    with pytest.raises(InvalidInput, match="given as numbers here"):
        parse_scenario({"weights": "w.csv", "costs": 1.0, "payoff": {"family": "log"}}, where="page")


BAD_CSV = [
    (b"", "the file is empty"),
    (b",,\n,,\n", "the file holds no numbers"),
    (b"1.0,\xff\n", "the file must be UTF-8 text, but byte 0xff on line 1 is not"),
    (b"1.0,0.2\n0.1\n", "row 2 must have 2 numbers, one per member, got 1"),
    (b"1.0,0.2\n0.1,x\n", "row 2, column 2 must be a finite number such as 0.25, got 'x'"),
    (b"1.0,1e999\n0.1,1\n", "row 1, column 2 must be a finite number such as 0.25, got '1e999'"),
    (b"one\ntwo\n", "row 1 must hold numbers, or an empty cell and the members' names, separated by commas, got 'one'"),
    (b",N,S\nN,1,0\n", "there must be one row per member: 2 names in row 1, 1 rows below"),
    (b",N,S\nS,1,0\nN,0,1\n", "row 2 must start with 'N', got 'S'; name the members in the same order"),
    (b",N,S\n\nN,1,0\nS,0,x\n", "row 4, column 3 must be a finite number such as 0.25, got 'x'"),
    (b",N,S\nN,1,0,3\nS,0,1\n", "row 2 must have 2 numbers, one per member, got 3"),
    (b'1.0,"0.2\n0.1,1\n', "the file is not valid CSV: unexpected end of data (at line 2)"),
]


@pytest.mark.parametrize(("content", "message"), BAD_CSV)
def test_malformed_csv(load, content, message):
    with pytest.raises(InvalidInput, match=rf"deal\.json: weights file .*w\.csv: {re.escape(message)}"):
        load("w.csv", content)


def test_duplicate_names_in_csv(load):
    with pytest.raises(InvalidInput, match=r'deal\.json: names\[1\] must differ from the others, "N" appears twice'):
        load("w.csv", b",N,N\nN,1,0\nN,0,1\n")


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def csr_parts(**changes):
    parts = {"format": b"csr", "shape": [2, 2], "data": [1.0, 1.0], "indices": [0, 1], "indptr": [0, 1, 2]}
    return npz(**(parts | changes))


UNREADABLE = "the file is not a readable NPZ archive; write it with scipy.sparse.save_npz"
BAD_NPZ = [
    (b"", UNREADABLE),
    (b"PK\x03\x04junk", UNREADABLE),
    (sparse_npz(sp.coo_array(MATRIX))[:-40], UNREADABLE),
    (zipped(weights=b"not an array"), "the weights must be real numbers of at most 64 bits"),
    (csr_parts(indices=[0, 10**6]), UNREADABLE),
    (csr_parts(indptr=[0, 1, 10**6]), UNREADABLE),
    (csr_parts(format=b"nonsense"), UNREADABLE),
    (npz(matrix=np.eye(2)), 'the archive has no array called "weights"'),
    (
        npz(weights=np.eye(2, dtype=complex)),
        "the weights must be real numbers of at most 64 bits, got dtype complex128",
    ),
    (npz(weights=np.array([["1"]])), "the weights must be real numbers of at most 64 bits, got dtype <U1"),
    (npz(weights=np.array([[1.0, None]])), UNREADABLE),
]


@pytest.mark.parametrize(("content", "message"), BAD_NPZ)
def test_malformed_npz(load, content, message):
    with pytest.raises(InvalidInput, match=rf"deal\.json: weights file .*w\.npz: .*{re.escape(message)}"):
        load("w.npz", content)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"weights": np.ones((2, 3))}, "weights must be a square matrix with a row per member, got shape (2, 3)"),
        ({"weights": np.array([[1, np.nan], [0, 1]])}, "weights[0, 1] must be finite, got nan"),
    ],
)
def test_npz_with_the_wrong_matrix(load, arrays, message):
    with pytest.raises(InvalidInput, match=rf"deal\.json: {re.escape(message)}"):
        load("w.npz", npz(**arrays))


def test_damaged_archives_never_crash(load):
    content = sparse_npz(sp.coo_array(MATRIX))
    rng = np.random.default_rng(0)
    for _ in range(100):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        with suppress(InvalidInput):
            load("w.npz", bytes(damaged))


def bomb(name, shape):
    """An archive whose array says that it is huge, and holds next to nothing."""
    entry = io.BytesIO()
    np.lib.format.write_array_header_1_0(entry, {"descr": "<f8", "fortran_order": False, "shape": shape})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{name}.npy", entry.getvalue() + b"\0" * 64)
    return buffer.getvalue()


@pytest.mark.parametrize("shape", [(10**6, 10**6), (2**62, 4)])
def test_arrays_that_hold_less_than_they_say_are_refused(load, shape):
    with pytest.raises(InvalidInput, match="not a readable NPZ archive"):
        load("w.npz", bomb("weights", shape))


def test_a_sparse_matrix_with_more_rows_than_memory_is_refused(load):
    empty = sp.coo_array(([], ([], [])), shape=(10**9, 10**9))
    with pytest.raises(InvalidInput, match="at most 2,000 members, got a sparse matrix of shape"):
        load("w.npz", sparse_npz(empty))
