"""Reading a store: SQL to answers, questions, findings and screens."""

import os

# Matrices are small here: threads of a numeric library take more CPU time to wait for each other
# than they save, on a busy host fifteen times as much. It reads this when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
