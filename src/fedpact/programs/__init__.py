"""Each mechanism as a mathematical program, and the solvers for them.

`solver` maximises a concave function over a box; `social_optimum` and `shapley_equilibrium` are the two programs it is
given (the first finds all optima at once too), `free_riding` a complementarity problem, `batch_solver` many small
programs in compiled code. `groups` is what every group of members could reach by itself, `worst_group` the search among
many members for the one that gains most by leaving, `group_relaxation` its bound; `fair_shares` and `nucleolus` divide
what everybody reaches so that groups stay. They know no mechanism, payment or deal.

May use: utils, federation, shapley.
"""
