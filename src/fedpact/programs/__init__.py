"""Each mechanism as a mathematical program, and the solvers for them."""
