"""Claims about an outcome and certificates for them, worked out apart from the solvers.

`certify` makes the certificates, `tolerances` says what counts as rounding and who would leave. No solver and no
integral of another room is used, so that none of their errors is repeated here.

May use: utils, federation.
"""

from fedpact.certificates.assumptions import Assumption, assumptions
from fedpact.certificates.certificate import Certificate, Claim, Verdict
from fedpact.certificates.certify import certify
from fedpact.certificates.reciprocity import WorstReciprocity

__all__ = ["Assumption", "Certificate", "Claim", "Verdict", "WorstReciprocity", "assumptions", "certify"]
