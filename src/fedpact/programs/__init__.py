"""Each mechanism as a mathematical program, and the solvers for them.

`solver` maximises a concave function over a box; `social_optimum` and `shapley_equilibrium` are the two programs it is
given, `optimal_face` all optima at once, `free_riding` a complementarity problem, `batch_solver` many small programs in
compiled code, `groups` what every group of members could reach by itself. They know no mechanism, payment or deal.

May use: utils, federation, shapley.
"""
