"""How a command ends."""

DONE, CLAIM_FAILS, BAD_INPUT, NOT_CONVERGED, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 130
IN_WORDS = (
    f"{DONE} done, {CLAIM_FAILS} a claim fails, {BAD_INPUT} bad input, {NOT_CONVERGED} not converged, "
    f"{BUG} an error in fedpact itself, {INTERRUPTED} interrupted"
)
