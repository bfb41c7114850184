"""The public names. Other programs rely on them: a change here is a change for them."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedpact

ROOT = Path(__file__).parents[2]
NAMES = """
    AccuracyShaping Assumption BestMembers BlockingGroup Calibration Certificate Claim Comparison Cost CostSharing
    Deal Delivery EqualSplit Equilibria Exponential ExternalityMechanism FairMechanism Federation FedpactError
    FieldStudy Fit InvalidInput LeastCore LeaveOneOut Linear Log Mechanism MechanismError MessageGame Messages
    Michaelis MissingExtra Money NashBargaining NoFairDeal NotConverged Nucleolus Observations Outcome Outcomes
    Outlook OutsideDomain Payoff PilotData PilotStudy PowerLaw ProportionalSharing Quadratic Recommendation Scenario
    SemivalueMechanism Sensitivity Settlement ShapleyMechanism ShapleyValues SharedCap SocialOptimum
    StableFederation Standalone Sweep Transfer Uncertainty VCGMechanism Verdict Voluntary best_members
    best_response_dynamics blocking_group calibrate_delivery compare estimate_delivery fit least_core load_deal
    load_scenario negotiate personal_prices pilot sample_game save_scenario set_threads settle shapley_values
    social_optimum solve_batch splitting_gain stable_federation study suggest sweep thread_count
"""
PUBLIC = NAMES.split()
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(fedpact.__path__, prefix="fedpact.")
    if not module.name.endswith("__main__")  # runs the command line
)


def test_the_list_is_the_list() -> None:
    assert fedpact.__all__ == PUBLIC
    assert sorted(fedpact.__all__) == fedpact.__all__
    assert len(set(fedpact.__all__)) == len(fedpact.__all__)


def test_only_public_names_are_listed() -> None:
    assert dir(fedpact) == sorted([*PUBLIC, "__version__"])
    with pytest.raises(AttributeError, match="module 'fedpact' has no attribute 'nosuch'"):
        _ = fedpact.nosuch


@pytest.mark.slow
def test_type_checkers_know_public_names_and_no_others(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "asks.py").write_text("import fedpact as fp\nfp.Federation\nfp.nosuch\n", encoding="utf-8")
    files = [tmp_path / "asks.py", fedpact.__file__]
    command = [sys.executable, "-m", "mypy", "--follow-imports=skip", "--cache-dir", tmp_path / "cache", *files]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert 'asks.py:3: error: Module has no attribute "nosuch"' in told
    assert "asks.py:2" not in told


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_there_and_explained(name: str) -> None:
    exported = getattr(fedpact, name)
    assert exported.__doc__
    assert exported.__module__.startswith("fedpact.")


def test_every_module_exports_what_it_says() -> None:
    for name in MODULES:
        module = importlib.import_module(name)
        assert module.__doc__ or not getattr(module, "__all__", None), f"{name} has no docstring"
        for exported in getattr(module, "__all__", []):
            assert hasattr(module, exported), f"{name}.{exported}"


def test_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert fedpact.__version__ == project["version"]
    if "dev" in fedpact.__version__:  # on the way to a release
        return
    assert f"\nversion: {fedpact.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {fedpact.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
