"""Recording a host: the helper, the recorder, and what both share."""

import os

# Numeric libraries start a thread per CPU when they are loaded, before privileges are dropped, and
# a thread drops its own only. Nothing here multiplies matrices.
for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
