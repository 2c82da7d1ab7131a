"""Student's distribution, as far as intervals of 95 % need it."""

from typing import Final

NORMAL_975: Final = 1.959964


def student_975(freedom: int) -> float:
    """Student's 97.5 % point, to three digits from three degrees of freedom on."""
    v = max(freedom, 3)
    z = NORMAL_975
    return z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v * v)
