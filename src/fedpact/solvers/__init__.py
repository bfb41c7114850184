"""Each mechanism as a mathematical program, and the one solver for them.

`interior_point` maximises concave functions over boxes, many side by side. `welfare`, `groups` and
`shapley_equilibrium` are the programs it is given; `free_riding` and `fixed_points` are the equilibria that no program
describes; `fair_division` divides what everybody reaches so that groups stay. They know no mechanism, payment or deal.

May use: utils, federation, shapley.
"""
