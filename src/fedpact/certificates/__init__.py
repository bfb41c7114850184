"""Claims about an outcome and certificates for them, worked out apart from the solvers.

`claims` names and words the claims. `certificates` certifies equilibrium (with the `deviations` of every mechanism),
balance, optimality and rationality; `reciprocity`, `core` and `split_proof` theirs. `concave` holds the problem that
most of them bound, `shapley_check` Shapley values, `tolerances` what counts as rounding and who would leave. No solver
and no integral of another package is used, so that none of their errors is repeated here.

May use: utils, federation.
"""

from fedpact.certificates.assumptions import Assumption, assumptions
from fedpact.certificates.certificates import Certificates
from fedpact.certificates.claims import Certificate, Claim, Verdict
from fedpact.certificates.reciprocity import WorstReciprocity

__all__ = ["Assumption", "Certificate", "Certificates", "Claim", "Verdict", "WorstReciprocity", "assumptions"]
