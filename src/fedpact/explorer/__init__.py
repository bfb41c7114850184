"""The explorer: a page in the browser on which a federation is edited and its deal moves along.

May use: everything below, except training, flower.
"""
