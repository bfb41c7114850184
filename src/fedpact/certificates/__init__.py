"""Claims about an outcome and certificates for them, worked out apart from the solvers.

`certificates` makes them, `claims` says of what, `tolerances` says what counts as rounding and who would leave. No
solver and no integral of another room is used, so that none of their errors is repeated here.

May use: utils, federation.
"""

from fedpact.certificates.assumptions import Assumption, assumptions
from fedpact.certificates.certificates import Certificate, certify
from fedpact.certificates.claims import Claim, Verdict
from fedpact.certificates.reciprocity import WorstReciprocity

__all__ = ["Assumption", "Certificate", "Claim", "Verdict", "WorstReciprocity", "assumptions", "certify"]
