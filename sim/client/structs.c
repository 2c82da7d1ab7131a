// SPDX-License-Identifier: Apache-2.0
/* Arguments that are structs or arrays: where they point lies here, and stays. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../cuda_abi.h"
#include "client.h"

static uint32_t grid_of(int call, int i)
{
	return (uint32_t)(3 + call % 5 + 4 * i);
}

static uint32_t block_of(int call, int i)
{
	return i == 0 ? 32u : (uint32_t)(2 + call % 2 + i);
}

static void shape(uint32_t *grid, uint32_t *block, int call)
{
	for (int i = 0; i < 3; i++) {
		grid[i] = grid_of(call, i);
		block[i] = block_of(call, i);
	}
}

static void shape_text(struct argument *a, const uint32_t *g, const uint32_t *b, uint64_t shared,
		       const void *stream)
{
	snprintf(a->text, sizeof(a->text),
		 "{\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"shared_bytes\":%" PRIu64
		 ",\"stream\":%" PRIu64 "}",
		 g[0], g[1], g[2], b[0], b[1], b[2], shared, (uint64_t)stream);
}

static void make_config(struct argument *a, int call, struct words *w)
{
	static CUlaunchConfig c;

	shape(c.grid, c.block, call);
	c.shared_bytes = (uint32_t)(128 + 16 * call);
	c.stream = world.streams[call % 3];
	shape_text(a, c.grid, c.block, c.shared_bytes, c.stream);
	words_add(w, (uint64_t)&c);
}

static void make_rt_config(struct argument *a, int call, struct words *w)
{
	static cudaLaunchConfig_t c;

	shape(&c.grid.x, &c.block.x, call);
	c.shared_bytes = (size_t)(128 + 16 * call);
	c.stream = world.streams[call % 3];
	shape_text(a, &c.grid.x, &c.block.x, c.shared_bytes, c.stream);
	words_add(w, (uint64_t)&c);
}

static void make_dim3(struct argument *a, int call, struct words *w, bool grid)
{
	uint32_t d[3];

	for (int i = 0; i < 3; i++)
		d[i] = grid ? grid_of(call, i) : block_of(call, i);
	snprintf(a->text, sizeof(a->text), "[%u,%u,%u]", d[0], d[1], d[2]);
	words_add(w, (uint64_t)d[0] | (uint64_t)d[1] << 32);
	words_add(w, d[2]);
}

static void make_memcpy2d(struct argument *a, int call, struct words *w)
{
	static CUDA_MEMCPY2D c;

	memset(&c, 0, sizeof(c));
	c.src_type = MEMORY_HOST;
	c.src_host = world.host;
	c.src_pitch = 512;
	c.dst_type = MEMORY_DEVICE;
	c.dst_device = world.memory[0];
	c.dst_pitch = 1024;
	c.width = (size_t)(64 + call);
	c.height = (size_t)(5 + call % 3);
	snprintf(a->text, sizeof(a->text),
		 "{\"width\":%zu,\"height\":%zu,\"bytes\":%zu,\"direction\":\"HtoD\"}", c.width,
		 c.height, c.width * c.height);
	words_add(w, (uint64_t)&c);
}

static void make_memcpy3d(struct argument *a, int call, struct words *w)
{
	static CUDA_MEMCPY3D c;

	memset(&c, 0, sizeof(c));
	c.src_type = MEMORY_DEVICE;
	c.src_device = world.memory[1];
	c.src_pitch = 512;
	c.src_height = 8;
	c.dst_type = MEMORY_HOST;
	c.dst_host = world.host;
	c.dst_pitch = 256;
	c.dst_height = 8;
	c.width = (size_t)(64 + call);
	c.height = (size_t)(5 + call % 3);
	c.depth = (size_t)(2 + call % 2);
	snprintf(
		a->text, sizeof(a->text),
		"{\"width\":%zu,\"height\":%zu,\"depth\":%zu,\"bytes\":%zu,\"direction\":\"DtoH\"}",
		c.width, c.height, c.depth, c.width * c.height * c.depth);
	words_add(w, (uint64_t)&c);
}

static void kernel_node(CUDA_KERNEL_NODE_PARAMS *p, struct argument *a, int call)
{
	memset(p, 0, sizeof(*p));
	p->function = world.function;
	shape(p->grid, p->block, call);
	p->shared_bytes = (uint32_t)(128 + 16 * call);
	shape_text(a, p->grid, p->block, p->shared_bytes, NULL);
}

static void make_kernel_node(struct argument *a, int call, struct words *w)
{
	static CUDA_KERNEL_NODE_PARAMS p;

	kernel_node(&p, a, call);
	words_add(w, (uint64_t)&p);
}

static void make_any_node(struct argument *a, int call, struct words *w)
{
	static struct {
		int type, unused[3];
		union {
			CUDA_KERNEL_NODE_PARAMS kernel;
			long long words[29];
		};
		long long last;
	} p;

	memset(&p, 0, sizeof(p));
	kernel_node(&p.kernel, a, call);
	words_add(w, (uint64_t)&p);
}

static void make_memset_node(struct argument *a, int call, struct words *w)
{
	static CUDA_MEMSET_NODE_PARAMS p;

	p = (CUDA_MEMSET_NODE_PARAMS){ world.memory[0], 1024, 7, 4, (size_t)(16 + call), 3 };
	snprintf(a->text, sizeof(a->text), "{\"bytes\":%zu}", p.width * p.height * 4);
	words_add(w, (uint64_t)&p);
}

static void nothing(void *unused)
{
	(void)unused;
}

static void make_host_node(struct argument *a, int call, struct words *w)
{
	static struct {
		void (*function)(void *);
		void *data;
	} p = { nothing, NULL };

	(void)call;
	snprintf(a->text, sizeof(a->text), "null");
	words_add(w, (uint64_t)&p);
}

#define BATCH 3

static void make_pointers(struct argument *a, int call, struct words *w, int which)
{
	static uint64_t pointers[2][BATCH];

	for (int i = 0; i < BATCH; i++)
		pointers[which][i] = world.memory[which] + (uint64_t)(i * 8192 + call % 16 * 64);
	snprintf(a->text, sizeof(a->text), "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
		 pointers[which][0], pointers[which][1], pointers[which][2]);
	words_add(w, (uint64_t)pointers[which]);
}

static void make_sizes(struct argument *a, int call, struct words *w)
{
	static size_t sizes[BATCH];

	for (int i = 0; i < BATCH; i++)
		sizes[i] = (size_t)(100 * (i + 1) + call);
	snprintf(a->text, sizeof(a->text), "{\"sizes\":[%zu,%zu,%zu],\"bytes\":%zu}", sizes[0],
		 sizes[1], sizes[2], sizes[0] + sizes[1] + sizes[2]);
	words_add(w, (uint64_t)sizes);
}

static void make_wrapper(struct argument *a, int call, struct words *w)
{
	static const struct {
		int magic, version;
		const void *data;
		void *unused;
	} wrapper = { 0x466243b1, 1, "no device code here", NULL };

	(void)call;
	snprintf(a->text, sizeof(a->text), "%" PRIu64, (uint64_t)&wrapper);
	words_add(w, (uint64_t)&wrapper);
}

static const struct maker struct_makers[] = {
	{ "config", make_config },
	{ "rt_config", make_rt_config },
	{ "memcpy2d", make_memcpy2d },
	{ "memcpy3d", make_memcpy3d },
	{ "kernel_node", make_kernel_node },
	{ "any_node", make_any_node },
	{ "memset_node", make_memset_node },
	{ "host_node", make_host_node },
	{ "sizes", make_sizes },
	{ "wrapper", make_wrapper },
};

static bool make_from(const struct maker *makers, size_t n, struct argument *a, int call,
		      struct words *w)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(a->type, makers[i].type) == 0) {
			makers[i].make(a, call, w);
			return true;
		}
	return false;
}

bool struct_make(struct argument *a, int call, struct words *w)
{
	if (make_from(struct_makers, sizeof(struct_makers) / sizeof(*struct_makers), a, call, w) ||
	    make_from(shape_makers, shape_maker_count, a, call, w))
		return true;
	if (strcmp(a->type, "dim3grid") == 0 || strcmp(a->type, "dim3block") == 0) {
		make_dim3(a, call, w, a->type[4] == 'g');
		return true;
	}
	if (strncmp(a->type, "pointers", 8) == 0) {
		make_pointers(a, call, w, a->type[8] == '2');
		return true;
	}
	return false;
}
