"""Claims about an outcome and certificates for them, computed apart from the solvers.

May use: utils, federation, shapley, programs.
"""

from fedpact.certificates.assumptions import Assumption, assumptions
from fedpact.certificates.certificate import Certificate, Claim, Verdict
from fedpact.certificates.certify import certify
from fedpact.certificates.reciprocity import WorstReciprocity

__all__ = ["Assumption", "Certificate", "Claim", "Verdict", "WorstReciprocity", "assumptions", "certify"]
