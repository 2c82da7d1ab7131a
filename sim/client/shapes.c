// SPDX-License-Identifier: Apache-2.0
/* The structs of the runtime's functions, and of the rarer functions of the driver. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../cuda_abi.h"
#include "client.h"

struct pitched {
	void *address;
	size_t pitch, width, height;
};

static void extent(size_t *e, int call)
{
	e[0] = (size_t)(64 + call);
	e[1] = (size_t)(5 + call % 3);
	e[2] = (size_t)(2 + call % 2);
}

static void extent_text(struct argument *a, const size_t *e)
{
	snprintf(a->text, sizeof(a->text),
		 "{\"width\":%zu,\"height\":%zu,\"depth\":%zu,\"bytes\":%zu}", e[0], e[1], e[2],
		 e[0] * e[1] * e[2]);
}

static void make_extent(struct argument *a, int call, struct words *w)
{
	size_t e[3];

	extent(e, call);
	extent_text(a, e);
	words_add_memory(w, e, sizeof(e));
}

static void make_pitched(struct argument *a, int call, struct words *w)
{
	struct pitched p = { (void *)world.memory[0], 512, 64, 8 };

	(void)call;
	snprintf(a->text, sizeof(a->text), "{\"pointer\":%" PRIu64 ",\"pitch\":%zu}",
		 world.memory[0], p.pitch);
	words_add_memory(w, &p, sizeof(p));
}

static void make_rt_box(struct argument *a, int call, struct words *w)
{
	static struct {
		void *src_array;
		size_t src_position[3];
		struct pitched src;
		void *dst_array;
		size_t dst_position[3];
		struct pitched dst;
		size_t extent[3];
		int kind;
	} b;

	memset(&b, 0, sizeof(b));
	b.src = (struct pitched){ (void *)world.memory[1], 512, 64, 8 };
	b.dst = (struct pitched){ (void *)world.memory[0], 512, 64, 8 };
	b.kind = 3;
	extent(b.extent, call);
	extent_text(a, b.extent);
	words_add(w, (uint64_t)&b);
}

static void make_peer_box(struct argument *a, int call, struct words *w)
{
	static struct {
		void *src_array;
		size_t src_position[3];
		struct pitched src;
		int src_device;
		void *dst_array;
		size_t dst_position[3];
		struct pitched dst;
		int dst_device;
		size_t extent[3];
	} b;

	memset(&b, 0, sizeof(b));
	b.src = (struct pitched){ (void *)world.memory[1], 512, 64, 8 };
	b.dst = (struct pitched){ (void *)world.memory[0], 512, 64, 8 };
	extent(b.extent, call);
	extent_text(a, b.extent);
	words_add(w, (uint64_t)&b);
}

static void make_boxes(struct argument *a, int call, struct words *w)
{
	static struct {
		uint64_t src[5], dst[5];
		size_t extent[3];
		uint32_t order, flags;
	} copy;

	extent(copy.extent, call);
	extent_text(a, copy.extent);
	words_add(w, (uint64_t)&copy);
}

struct shape {
	uint32_t grid[3], block[3], shared_bytes;
};

static struct shape shape_of(struct argument *a, int call)
{
	uint32_t n = (uint32_t)call;
	struct shape s = { { 3 + n % 5, 7, 11 }, { 32, 3 + n % 2, 4 }, 128 + 16 * n };

	snprintf(a->text, sizeof(a->text),
		 "{\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"shared_bytes\":%u}", s.grid[0],
		 s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2], s.shared_bytes);
	return s;
}

static void make_launches(struct argument *a, int call, struct words *w)
{
	static struct {
		void *function;
		struct shape shape;
		void *stream, *params;
	} launch;

	launch.function = world.function;
	launch.shape = shape_of(a, call);
	launch.stream = world.streams[call % 3];
	words_add(w, (uint64_t)&launch);
}

struct rt_kernel {
	const void *stub;
	struct shape shape;
	void *params, *extra;
};

static void make_rt_kernel_node(struct argument *a, int call, struct words *w)
{
	static struct rt_kernel p;

	p = (struct rt_kernel){ kernel_stub, shape_of(a, call), NULL, NULL };
	words_add(w, (uint64_t)&p);
}

static void make_rt_any_node(struct argument *a, int call, struct words *w)
{
	static struct {
		int type, unused[3];
		union {
			struct rt_kernel kernel;
			long long words[29];
		};
		long long last;
	} p;

	memset(&p, 0, sizeof(p));
	p.kernel = (struct rt_kernel){ kernel_stub, shape_of(a, call), NULL, NULL };
	words_add(w, (uint64_t)&p);
}

const struct maker shape_makers[] = {
	{ "extent", make_extent },
	{ "pitched", make_pitched },
	{ "rt_box", make_rt_box },
	{ "peer_box", make_peer_box },
	{ "boxes", make_boxes },
	{ "launches", make_launches },
	{ "rt_kernel_node", make_rt_kernel_node },
	{ "rt_any_node", make_rt_any_node },
};

const size_t shape_maker_count = sizeof(shape_makers) / sizeof(*shape_makers);
