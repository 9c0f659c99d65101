"""What pytest leaves alone: modules that need a library this machine lacks.

Small products of numpy and torch stay on one thread: tests run in two processes, and
on busy cores threads wait for each other.
Nothing here uses the network, and no library is to call home.
"""

import os
from importlib.util import find_spec

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# The CUDA kernels import triton, which comes with CUDA builds of torch only.
CUDA_KERNELS = "src/affinerank/rankers/networks/cuda.py"
collect_ignore = [] if find_spec("triton") else [CUDA_KERNELS]

# A small log, and ways to write and count it, for the tests of several rooms.
pytest_plugins = ["tests.log_fixtures"]
