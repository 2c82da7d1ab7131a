"""Kernel names as two programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.profiles.kernel_names import base_name


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("gemm", "gemm"),
        ("void gemm_kernel<float>(float const*, float*, int)", "gemm_kernel"),
        ("void at::native::(anonymous namespace)::sum<4, a::b<c> >(int)", "at::native::sum"),
        ("at::native::sum<4, a::b<c>>(int)", "at::native::sum"),
        ("void box<int>::run<float>(decltype(a->b))", "box::run"),
        ("ncclDevKernel_AllReduce(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllReduce"),
        ("_Z11gemm_kernelIfEvPKT_S2_PS0_iii", "gemm_kernel"),
        ("_ZN2at6native3sumILi4EEEvi", "at::native::sum"),
        ("_ZN2at12_GLOBAL__N_13sumEv", "at::sum"),
        ("_Zwhat", "_Zwhat"),
        ("", ""),
    ],
)
def test_base_name_leaves_out_what_demanglers_differ_in(name, base):
    assert base_name(name) == base


@given(st.text(alphabet="_Zab0123456789<>(){}-> :NI", max_size=60))
def test_any_name_has_a_base_no_longer_than_itself(name):
    assert len(base_name(name)) <= len(name)
