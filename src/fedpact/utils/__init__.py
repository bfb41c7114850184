"""What every other package may use: errors, arrays, files, tables, lines of JSON, checkpoints, words, threads.

It knows nothing of federations. May use: no other package of fedpact.
"""
