// SPDX-License-Identifier: Apache-2.0
/* Arguments that are numbers, addresses and handles, and the objects behind those. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client.h"

#define BUFFER_BYTES (1 << 20)

struct world world;
const char kernel_name[] = "_Z11client_tickPfi";

static void hostfun(void)
{
	__asm__ volatile("nop");
}

const void *kernel_stub = (const void *)hostfun;
static char more_hostfuns[1 << 16];
static char hostvar[1 << 16];

static void world_make_runtime(void)
{
	static const struct {
		int magic, version;
		const void *data;
		void *unused;
	} wrapper = { 0x466243b1, 1, "no device code here", NULL };

	world.runtime = true;
	world.fatbin = (void **)use("__cudaRegisterFatBinary", 1, &wrapper);
	use("__cudaRegisterFunction", 10, world.fatbin, hostfun, kernel_name, kernel_name, -1L, 0L,
	    0L, 0L, 0L, 0L);
	use("__cudaRegisterVar", 8, world.fatbin, hostvar, hostvar, "client_table", 0L,
	    (long)sizeof(hostvar), 0L, 0L);
	use("__cudaRegisterFatBinaryEnd", 1, world.fatbin);
	made((int)use("cudaSetDevice", 1, 0L), "cudaSetDevice");
}

static void world_make_graph(void)
{
	void *captured = world.streams[0];

	made((int)use("cuStreamBeginCapture_v2", 2, captured, 0L), "cuStreamBeginCapture_v2");
	use("cuLaunchKernel", 11, world.function, 1L, 1L, 1L, 32L, 1L, 1L, 0L, captured, 0L, 0L);
	made((int)use("cuStreamEndCapture", 2, captured, &world.graph), "cuStreamEndCapture");
	made((int)use("cuGraphInstantiateWithFlags", 3, &world.exec, world.graph, 0L),
	     "instantiation");
	use("cuGraphGetNodes", 3, world.graph, &world.node, &(size_t){ 1 });
}

/* Everything that some argument may name. */
void world_make(const char *symbol)
{
	if (!world.context) {
		made((int)use("cuInit", 1, 0L), "cuInit");
		made((int)use("cuDevicePrimaryCtxRetain", 2, &world.context, 0L), "context");
		made((int)use("cuCtxSetCurrent", 1, world.context), "context");
		for (int i = 0; i < 3; i++)
			made((int)use("cuStreamCreate", 2, &world.streams[i], 1L), "stream");
		for (int i = 0; i < 2; i++) {
			made((int)use("cuMemAlloc_v2", 2, &world.memory[i], (long)BUFFER_BYTES),
			     "memory");
			made((int)use("cuEventCreate", 2, &world.event[i], 0L), "event");
		}
		made((int)use("cuMemHostAlloc", 3, &world.host, (long)BUFFER_BYTES, 0L), "memory");
		made((int)use("cuMemAllocManaged", 3, &world.managed, (long)BUFFER_BYTES, 1L),
		     "memory");
		made((int)use("cuModuleLoadData", 2, &world.module, "image"), "module");
		made((int)use("cuModuleGetFunction", 3, &world.function, world.module, kernel_name),
		     "name");
		made((int)use("cuLibraryLoadData", 8, &world.library, "image", 0L, 0L, 0L, 0L, 0L,
			      0L),
		     "library");
		made((int)use("cuLibraryGetKernel", 3, &world.kernel, world.library, kernel_name),
		     "name");
		made((int)use("cuMemPoolCreate", 2, &world.pool, 0L), "pool");
		made((int)use("cuMemAddressReserve", 5, &world.range, (long)BUFFER_BYTES, 0L, 0L,
			      0L),
		     "range");
		made((int)use("cuMemCreate", 4, &world.physical, (long)BUFFER_BYTES, 0L, 0L),
		     "memory");
		world_make_graph();
	}
	if (strstr(symbol, "cuda") && !world.runtime)
		world_make_runtime();
	if (strncmp(symbol, "nccl", 4) == 0 && !world.nccl) {
		static const int devices[2] = { 0, 0 };

		world.nccl = true;
		made((int)use("ncclCommInitAll", 3, world.comm, 2L, devices), "ncclCommInitAll");
	}
}

static uint64_t fresh(const char *maker, int n, uint64_t second, uint64_t third)
{
	uint64_t out = 0;

	made((int)use(maker, n, &out, second, third, 0L, 0L, 0L, 0L, 0L), maker);
	return out;
}

static uint64_t bytes_of(int call)
{
	return (uint64_t)(4096 + 16 * call);
}

enum second { NOTHING, ONE, BYTES, NAME, GRAPH };

/* Objects made for one call, because the call ends them. */
static const struct fresh_maker {
	const char *type, *maker;
	int arguments;
	enum second second;
} fresh_makers[] = {
	{ "fresh", "cuMemAlloc_v2", 2, BYTES },
	{ "fresh_host", "cuMemHostAlloc", 3, BYTES },
	{ "fresh_physical", "cuMemCreate", 4, BYTES },
	{ "fresh_module", "cuModuleLoadData", 2, NAME },
	{ "fresh_library", "cuLibraryLoadData", 8, NAME },
	{ "fresh_event", "cuEventCreate", 2, NOTHING },
	{ "fresh_stream", "cuStreamCreate", 2, ONE },
	{ "capturable", "cuStreamCreate", 2, ONE },
	{ "fresh_context", "cuCtxCreate_v2", 3, NOTHING },
	{ "fresh_graph", "cuGraphCreate", 2, NOTHING },
	{ "fresh_exec", "cuGraphInstantiateWithFlags", 3, GRAPH },
	{ "fresh_pool", "cuMemPoolCreate", 2, NOTHING },
	{ "fresh_comm", "ncclCommInitAll", 3, ONE },
	{ "alone", "ncclCommInitAll", 3, ONE },
};

static bool fresh_value(const char *type, int call, uint64_t *value)
{
	const uint64_t seconds[] = { 0, 1, bytes_of(call), (uint64_t)kernel_name,
				     (uint64_t)world.graph };

	for (size_t i = 0; i < sizeof(fresh_makers) / sizeof(*fresh_makers); i++) {
		const struct fresh_maker *m = &fresh_makers[i];

		if (strcmp(m->type, type) == 0) {
			*value = fresh(m->maker, m->arguments, seconds[m->second], 0);
			return true;
		}
	}
	return false;
}

/* Objects that the call wants in some state. */
static bool prepared_value(const char *type, int call, uint64_t *value)
{
	void *stream = world.streams[call % 3];

	if (strcmp(type, "capturing") == 0) {
		*value = fresh("cuStreamCreate", 2, 1, 0);
		made((int)use("cuStreamBeginCapture_v2", 2, *value, 0L), "capture");
	} else if (strcmp(type, "fresh_mapping") == 0) {
		*value = world.range;
		made((int)use("cuMemMap", 5, *value, bytes_of(call), 0L, world.physical, 0L),
		     "cuMemMap");
	} else if (strcmp(type, "fresh_node") == 0) {
		made((int)use("cuGraphAddEmptyNode", 4, value, fresh("cuGraphCreate", 2, 0, 0), 0L,
			      0L),
		     "node");
	} else if (strcmp(type, "retained") == 0) {
		*value = 0;
		fresh("cuDevicePrimaryCtxRetain", 2, 0, 0);
	} else if (strcmp(type, "event_before") == 0) {
		*value = (uint64_t)world.event[0];
		made((int)use("cuEventRecord", 2, *value, stream), "event");
	} else if (strcmp(type, "event_after") == 0) {
		*value = (uint64_t)world.event[1];
		use("cuLaunchKernel", 11, world.function, 9L + call, 1L, 1L, 32L, 1L, 1L, 0L,
		    stream, 0L, 0L);
		made((int)use("cuEventRecord", 2, *value, stream), "event");
		made((int)use("cuEventSynchronize", 1, *value), "event");
	} else {
		return false;
	}
	return true;
}

static void nothing(void *a, int b, void *c)
{
	(void)a;
	(void)b;
	(void)c;
}

struct plain {
	const char *type;
	uint64_t value;
};

static bool look_up(const struct plain *plain, size_t n, const char *type, uint64_t *value)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(plain[i].type, type) == 0) {
			*value = plain[i].value;
			return true;
		}
	return false;
}

/* Numbers that differ between the arguments of a call and from call to call. */
static bool number_value(const char *type, int index, int call, uint64_t *value)
{
	const struct plain numbers[] = {
		{ "null", 0 },
		{ "zero", 0 },
		{ "one", 1 },
		{ "two", 2 },
		{ "three", 3 },
		{ "array", 0xA000000ull + (uint64_t)(call * 64) },
		{ "four", 4 },
		{ "dtod", 3 },
		{ "bytes", bytes_of(call) },
		{ "count", (uint64_t)(1000 + 3 * call) },
		{ "byte", (uint64_t)(17 + call % 100) },
		{ "width", (uint64_t)(64 + call) },
		{ "height", (uint64_t)(5 + call % 3) },
		{ "pitch", 2048 },
		{ "shared", (uint64_t)(128 + 16 * call) },
		{ "grid", (uint64_t)(2 + index + call % 5) },
		{ "block", (uint64_t)(index == 4 ? 32 : index - 2 + call % 2) },
		{ "version", 13000 },
		{ "location", 1 },
		{ "datatype", (uint64_t)(call % 10) },
		{ "reduction", (uint64_t)(call % 5) },
		{ "root", (uint64_t)(call / 2 % 2) },
		{ "peer", (uint64_t)(call % 2) },
	};

	return look_up(numbers, sizeof(numbers) / sizeof(*numbers), type, value);
}

static bool object_value(const char *type, int call, uint64_t *value)
{
	const struct plain objects[] = {
		{ "device", world.memory[0] + (uint64_t)(call % 512) * 64 },
		{ "device2", world.memory[1] + (uint64_t)(call % 512) * 64 },
		{ "managed", world.managed },
		{ "host", (uint64_t)world.host + (uint64_t)(call % 512) * 64 },
		{ "range", world.range },
		{ "physical", world.physical },
		{ "stream", (uint64_t)world.streams[call % 3] },
		{ "event", (uint64_t)world.event[call % 2] },
		{ "context", (uint64_t)world.context },
		{ "module", (uint64_t)world.module },
		{ "library", (uint64_t)world.library },
		{ "function", (uint64_t)world.function },
		{ "kernel", (uint64_t)world.kernel },
		{ "graph", (uint64_t)world.graph },
		{ "node", (uint64_t)world.node },
		{ "exec", (uint64_t)world.exec },
		{ "pool", (uint64_t)world.pool },
		{ "comm", (uint64_t)world.comm[call % 2] },
		{ "fatbin", (uint64_t)world.fatbin },
		{ "hostfun", (uint64_t)hostfun },
		{ "hostvar", (uint64_t)hostvar },
		{ "fresh_hostfun", (uint64_t)&more_hostfuns[call % (1 << 16)] },
		{ "callback", (uint64_t)nothing },
		{ "stream_callback", (uint64_t)nothing },
	};

	return look_up(objects, sizeof(objects) / sizeof(*objects), type, value);
}

static void text_value(struct argument *a, int call, struct words *w)
{
	static char texts[4][64];
	char *text = texts[w->registers % 4];

	if (strcmp(a->type, "entry") == 0)
		snprintf(text, 64, "%s", call % 2 ? "cuLaunchKernel" : "cuMemAlloc");
	else
		snprintf(text, 64, "_Z10client_%03dPfi", call % 1000);
	snprintf(a->text, sizeof(a->text), "\"%s\"", text);
	words_add(w, (uint64_t)text);
}

static bool out_value(struct argument *a, struct words *w)
{
	static uint64_t outs[8][32];
	uint64_t *out = outs[(w->registers + w->stacked) % 8];

	if (strcmp(a->type, "out") != 0 && strcmp(a->type, "pushed") != 0 &&
	    strcmp(a->type, "comms") != 0)
		return false;
	if (strcmp(a->type, "pushed") == 0)
		made((int)use("cuCtxPushCurrent_v2", 1, world.context), "cuCtxPushCurrent_v2");
	memset(out, 0, sizeof(outs[0]));
	a->out = out;
	words_add(w, (uint64_t)out);
	return true;
}

static bool id_value(struct argument *a, struct words *w)
{
	static char id[128];
	bool by_value = strcmp(a->type, "unique_id") == 0;

	if (!by_value && strcmp(a->type, "unique_ids") != 0)
		return false;
	made((int)use("ncclGetUniqueId", 1, id), "ncclGetUniqueId");
	snprintf(a->text, sizeof(a->text), "null");
	if (by_value)
		words_add_memory(w, id, sizeof(id));
	else
		words_add(w, (uint64_t)id);
	return true;
}

void value_make(struct argument *a, int index, int call, struct words *w)
{
	uint64_t value = a->value;

	a->out = NULL;
	if (strcmp(a->type, "name") == 0 || strcmp(a->type, "entry") == 0) {
		text_value(a, call, w);
		return;
	}
	if (!a->given && (out_value(a, w) || id_value(a, w) || struct_make(a, call, w)))
		return;
	if (!a->given && !fresh_value(a->type, call, &value) &&
	    !prepared_value(a->type, call, &value) && !number_value(a->type, index, call, &value) &&
	    !object_value(a->type, call, &value))
		made(-1, a->type);
	snprintf(a->text, sizeof(a->text), "%" PRIu64, value);
	words_add(w, value);
}

void call_before(const char *symbol)
{
	if (strcmp(symbol, "ncclGroupEnd") == 0)
		use("ncclGroupStart", 0);
}

void call_after(const char *symbol)
{
	if (strcmp(symbol, "ncclGroupStart") == 0)
		use("ncclGroupEnd", 0);
	if (strcmp(symbol, "cuCtxPushCurrent_v2") == 0)
		use("cuCtxPopCurrent_v2", 1, 0L);
	if (strncmp(symbol, "cuCtxCreate", 11) == 0 || strcmp(symbol, "cuCtxDestroy_v2") == 0)
		use("cuCtxSetCurrent", 1, world.context);
}
