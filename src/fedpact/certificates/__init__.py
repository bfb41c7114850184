"""Claims about an outcome and certificates for them, worked out apart from the solvers.

A module for each claim: `nash` (with the `deviations` of every mechanism), `balance`, `optimality`, `rationality`,
`reciprocity`, `core`, `split_proof`. `concave` holds the problem that most of them bound, `shapley_check`
Shapley values, `tolerances` what counts as rounding and who would leave. No solver and no integral of another package
is used, so that none of their errors is repeated here.

May use: utils, federation.
"""

from fedpact.certificates.assumptions import Assumption, assumptions
from fedpact.certificates.certificates import certify
from fedpact.certificates.claims import Certificate, Claim, Verdict
from fedpact.certificates.reciprocity import WorstReciprocity

__all__ = ["Assumption", "Certificate", "Claim", "Verdict", "WorstReciprocity", "assumptions", "certify"]
