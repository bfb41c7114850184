"""The paper's figures, tables and theorems computed anew, one module for each, and what became of its statements.

May use: everything below, except flower.
"""
