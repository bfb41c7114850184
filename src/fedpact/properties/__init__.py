"""Claims about an outcome and certificates for them, computed apart from the solvers."""

from fedpact.properties.assumptions import Assumption, assumptions
from fedpact.properties.certificate import Certificate, Claim, Verdict
from fedpact.properties.certify import certify
from fedpact.properties.reciprocity import WorstReciprocity

__all__ = ["Assumption", "Certificate", "Claim", "Verdict", "WorstReciprocity", "assumptions", "certify"]
