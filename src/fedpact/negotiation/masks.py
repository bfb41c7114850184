"""Masks that cancel: numbers of which only the sum over everybody can be read.

Every two members agree on a secret by X25519: each publishes a key, and the two keys come to the same secret for both
of them and for nobody else. From the secret and the whole text of a question both derive the same stream of bytes
(HKDF with SHA-256, ChaCha20); one adds it to its answer and the other subtracts it. The masks of all pairs cancel in
the sum, and nothing short of the sum over all members says anything: every answer by itself is uniformly random.

Numbers are whole multiples of 2^-80, counted modulo 2^128: sums are exact and do not depend on their order. Another
question, of another round, about another profile or between other members, has other masks; the same question asked
again has the same answer.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpact.utils.arrays import FloatArray
from fedpact.utils.errors import InvalidInput, MissingExtra, Refusal

Residues = NDArray[Any]  # whole numbers modulo 2^128

FRACTION_BITS = 80
MODULUS = 1 << 128
BYTES = 16  # of a number
MAX_MASKED = 2.0**40  # numbers beyond it cannot be masked: their sums might not fit
PURPOSE = b"fedpact sums 1"


def public_key(secret: bytes) -> str:
    """The key that belongs to a secret of 32 bytes, in hexadecimal."""
    return _private_key(secret).public_key().public_bytes_raw().hex()


def question_digest(question: Mapping[str, Any]) -> bytes:
    """What masks are bound to: everything a question says, its number aside; who asks again gets the same answer."""
    content = {key: part for key, part in question.items() if key != "number"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).digest()


def pair_seed(secret: bytes, peer: str, digest: bytes) -> bytes:
    """What two members have in common for one question: 32 bytes; refuses a peer's key that is none."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - optional dependency
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    return HKDF(SHA256(), 32, salt=None, info=PURPOSE + digest).derive(_shared_secret(secret, peer))


def mask(seed: bytes, count: int) -> Residues:
    """The numbers that a seed stands for."""
    from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: PLC0415 - optional dependency
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20  # noqa: PLC0415

    return _from_bytes(Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(BYTES * count)))


def own_mask(index: int, seeds: Mapping[int, bytes], count: int) -> Residues:
    """The sum of a member's masks: added for those behind it, subtracted for those before."""
    total: Residues = np.zeros(count, dtype=object)
    for peer, seed in seeds.items():
        total = total + mask(seed, count) if index < peer else total - mask(seed, count)
    return total % MODULUS


def to_residues(numbers: Sequence[float] | FloatArray) -> Residues:
    """Numbers rounded to multiples of 2^-80; refuses those that are not finite or too large."""
    given = np.asarray(numbers, dtype=np.float64)
    if not (np.abs(given) <= MAX_MASKED).all():
        # Not the number itself: this goes to the coordinator.
        raise Refusal(f"numbers in sums must lie within {MAX_MASKED:.3g}; state payoffs in a larger unit")
    return np.array([int(number) % MODULUS for number in np.ldexp(given, FRACTION_BITS)], dtype=object)


def to_floats(residues: Residues) -> FloatArray:
    """The numbers that residues stand for, those above half of the modulus negative."""
    signed = [whole - MODULUS if whole >= MODULUS // 2 else whole for whole in residues.tolist()]
    return np.ldexp(np.array(signed, dtype=np.float64), -FRACTION_BITS)


def encode(residues: Residues) -> str:
    """Residues as a text."""
    return base64.b64encode(b"".join(whole.to_bytes(BYTES, "little") for whole in residues.tolist())).decode()


def decode(text: Any, count: int) -> Residues:
    """So many residues from a text; raises `InvalidInput`."""
    try:
        content = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise InvalidInput(f"masked numbers must be a base64 text, got {text!r:.40}") from error
    if len(content) != BYTES * count:
        raise InvalidInput(f"masked numbers must be {count} of {BYTES} bytes, got {len(content)} bytes")
    return _from_bytes(content)


def require_cryptography() -> None:
    """Raise `MissingExtra` where masks cannot be made."""
    try:
        import cryptography  # noqa: F401, PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtra("Negotiating in sums", "sums") from error


def _from_bytes(content: bytes) -> Residues:
    indices = range(0, len(content), BYTES)
    return np.array([int.from_bytes(content[index : index + BYTES], "little") for index in indices], dtype=object)


def _private_key(secret: bytes) -> Any:
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415

    return X25519PrivateKey.from_private_bytes(secret)


@lru_cache(maxsize=1 << 14)
def _shared_secret(secret: bytes, peer: str) -> bytes:
    key = _private_key(secret)
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey  # noqa: PLC0415

    try:
        return bytes(key.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(peer))))
    except (TypeError, ValueError) as error:
        raise Refusal(f"a member's key must be an X25519 key in hexadecimal, got {peer!r:.80}") from error
