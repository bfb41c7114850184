"""Pictures, drawn with matplotlib when they are asked for; one style for all of them.

`results` draws a result on one pair of axes, the `ax` it is given or new ones; `sweeps` draws a figure of panels. Every
function returns the figure: notebooks show it and `figure.savefig` writes it to a file. Without matplotlib it raises
`MissingExtra`.
"""
