"""Benchmarks: every figure is a ratio of two things measured in one run. `make bench` runs them.

Everything runs on one thread, ours and theirs, so that processor time is what one waits for on an idle machine.
"""

import os

# Before NumPy is imported, which reads them then.
for _threads in ("FEDPACT_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"
