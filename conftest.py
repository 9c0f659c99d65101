"""What pytest leaves alone: modules that need a library this machine lacks."""

from importlib.util import find_spec

# The CUDA kernels import triton, which comes with CUDA builds of torch only.
collect_ignore = [] if find_spec("triton") else ["src/affinerank/rankers/cuda.py"]
