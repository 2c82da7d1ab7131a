"""A program compiled by the real compiler, run unchanged."""

import json
import subprocess
from collections import Counter

import pytest

from cotenant import sim
from tests.nvcc import build_with_nvcc

PROGRAM = r"""
#include <cstring>
template <typename T> __global__ void scale(T *p, T k) { p[threadIdx.x] *= k; }
__global__ void add(const float *a, const float *b, float *c) { c[0] = a[0] + b[0]; }
namespace model { struct Weights {}; __global__ void step(Weights, int) {} }
__constant__ char table[64];
static void CUDART_CB count(void *n) { ++*(int *)n; }

int main()
{
	char text[64] = "moved", back[64] = "";
	float *p;
	int hosted = 0;
	cudaStream_t s;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	cudaMalloc(&p, 4096);
	cudaStreamCreate(&s);
	for (int i = 0; i < 7; i++)
		add<<<4, 256>>>(p, p, p);
	for (int i = 0; i < 5; i++)
		scale<float><<<dim3(2, 3, 4), dim3(8, 4, 2), 128, s>>>(p, 2.f);
	cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
	model::step<<<1, 1, 0, s>>>({}, 3);
	cudaLaunchHostFunc(s, count, &hosted);
	cudaStreamEndCapture(s, &graph);
	cudaGraphInstantiate(&exec, graph, 0);
	for (int i = 0; i < 3; i++)
		cudaGraphLaunch(exec, s);
	cudaMemcpyToSymbol(table, text, sizeof(text));
	cudaMemcpyFromSymbol(back, table, sizeof(text));
	cudaDeviceSynchronize();
	return cudaGetLastError() != cudaSuccess || hosted != 3 || strcmp(text, back) != 0;
}
"""


@pytest.mark.parametrize("streams", ["legacy", "per-thread"])
def test_a_program_of_nvcc_runs_unchanged(tmp_path, device, streams):
    source, program, log = (tmp_path / name for name in ("a.cu", "a.out", "truth.jsonl"))
    source.write_text(PROGRAM)
    build_with_nvcc(program, source, "-default-stream", streams)
    env = sim.environment({**device, "COTENANT_SIM_LOG": str(log)})
    subprocess.run([str(program)], env=env, check=True, timeout=60)

    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ran = Counter(
        (line["kernel"], tuple(line["grid"]), tuple(line["block"]))
        for line in lines
        if line["op"] in ("launch", "graph_kernel") and "captured" not in line
    )
    assert ran == {
        ("_Z3addPKfS0_Pf", (4, 1, 1), (256, 1, 1)): 7,
        ("_Z5scaleIfEvPT_S0_", (2, 3, 4), (8, 4, 2)): 5,
        ("_ZN5model4stepENS_7WeightsEi", (1, 1, 1), (1, 1, 1)): 3,
    }
