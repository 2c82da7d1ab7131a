/* SPDX-License-Identifier: Apache-2.0 */
/* Any exported function, called an exact number of times with arguments that tell themselves apart.
 */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARGUMENTS 16

/* "name:type name:type ...", in the order of the C declaration. */
struct row {
	const char *symbol, *arguments;
	int only; /* in this version of the runtime library; 0: in all */
};

extern const struct row rows[];
extern const size_t row_count;

/* The words of a call as the ABI places them. */
struct words {
	int registers, stacked;
	uint64_t reg[6], stack[20];
};

void words_add(struct words *w, uint64_t value);
void words_add_memory(struct words *w, const void *data, size_t bytes);
uint64_t words_call(void *function, const struct words *w);

struct argument {
	char name[32], type[32];
	char text[2048]; /* what was passed, as JSON */
	uint64_t *out;	 /* to be read after the call, else NULL */
	bool given;	 /* on the command line */
	uint64_t value;
};

/* Makes an argument of one type. */
struct maker {
	const char *type;
	void (*make)(struct argument *a, int call, struct words *w);
};
extern const struct maker shape_makers[];
extern const size_t shape_maker_count;

/* Make the value of an argument for the given call, and add it to the words. */
void value_make(struct argument *a, int index, int call, struct words *w);
bool struct_make(struct argument *a, int call, struct words *w);
/* What a call needs around it: NCCL's point-to-point calls want a group. */
void call_before(const char *symbol);
void call_after(const char *symbol);

void *find(
	const char *symbol); /* in the library it belongs to; ends the program if it is not there */
uint64_t use(const char *symbol, int n, ...); /* call it with n integers or pointers */
void made(int result, const char *what);

/* values.c: what the program has made for itself */
struct world {
	void *streams[3], *context, *module, *library, *function, *kernel, *event[2], *graph, *node,
		*exec, *pool, *comm[2], **fatbin;
	uint64_t memory[2], range, physical, managed;
	void *host;
	bool nccl, runtime;
};
extern struct world world;
extern int runtime_major;
void world_make(const char *symbol);

extern const char kernel_name[];
extern const void *kernel_stub;

#endif
