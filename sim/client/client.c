// SPDX-License-Identifier: Apache-2.0
/*
 * client [--runtime 12|13] [--ready FILE] [--start-on FILE] SYMBOL COUNT [NAME=VALUE ...]
 * client ... -              the same, line by line from standard input
 * client --list             what can be called, as JSON
 *
 * Prints one JSON object per call: the symbol, the arguments, what came back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

int runtime_major = 13;

void words_add(struct words *w, uint64_t value)
{
	if (w->registers < 6)
		w->reg[w->registers++] = value;
	else
		w->stack[w->stacked++] = value;
}

/* A large struct by value lies on the stack; what follows still goes in registers. */
void words_add_memory(struct words *w, const void *data, size_t bytes)
{
	memcpy(&w->stack[w->stacked], data, bytes);
	w->stacked += (int)(bytes / 8);
}

uint64_t words_call(void *function, const struct words *w)
{
	uint64_t (*f)(uint64_t, ...);
	const uint64_t *r = w->reg, *s = w->stack;

	*(void **)&f = function;
	return f(r[0], r[1], r[2], r[3], r[4], r[5], s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7],
		 s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15], s[16], s[17], s[18], s[19]);
}

static void *library_of(const char *symbol)
{
	static void *driver, *runtime, *nccl;
	char name[32];

	if (strncmp(symbol, "nccl", 4) == 0 || strncmp(symbol, "pnccl", 5) == 0)
		return nccl ? nccl : (nccl = dlopen("libnccl.so.2", RTLD_NOW));
	if (strncmp(symbol, "cuda", 4) == 0 || strncmp(symbol, "__cuda", 6) == 0) {
		snprintf(name, sizeof(name), "libcudart.so.%d", runtime_major);
		return runtime ? runtime : (runtime = dlopen(name, RTLD_NOW));
	}
	return driver ? driver : (driver = dlopen("libcuda.so.1", RTLD_NOW));
}

void *find(const char *symbol)
{
	void *library = library_of(symbol);
	void *function = library ? dlsym(library, symbol) : NULL;

	if (!function) {
		fprintf(stderr, "client: no %s: %s\n", symbol, dlerror());
		exit(1);
	}
	return function;
}

uint64_t use(const char *symbol, int n, ...)
{
	struct words w = { 0 };
	va_list args;

	va_start(args, n);
	for (int i = 0; i < n; i++)
		words_add(&w, va_arg(args, uint64_t));
	va_end(args);
	return words_call(find(symbol), &w);
}

void made(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "client: %s failed with %d\n", what, result);
	exit(1);
}

static bool row_here(const struct row *row)
{
	return !row->only || row->only == runtime_major;
}

static const struct row *row_of(const char *symbol)
{
	for (size_t i = 0; i < row_count; i++)
		if (row_here(&rows[i]) && strcmp(rows[i].symbol, symbol) == 0)
			return &rows[i];
	fprintf(stderr, "client: %s is not in the table; --list shows it\n", symbol);
	exit(2);
}

static int parse(const char *text, struct argument *arguments)
{
	int n = 0, used;

	while (sscanf(text, " %31[^:]:%31s%n", arguments[n].name, arguments[n].type, &used) == 2) {
		text += used;
		n++;
	}
	return n;
}

static void print_call(const char *symbol, int call, const struct argument *arguments, int n,
		       uint64_t result)
{
	bool pointer = strcmp(symbol, "__cudaRegisterFatBinary") == 0;

	printf("{\"symbol\":\"%s\",\"call\":%d,\"pid\":%d,\"result\":%" PRId64 ",\"args\":{",
	       symbol, call, getpid(), pointer ? (int64_t)result : (int64_t)(int32_t)result);
	for (int i = 0; i < n; i++) {
		printf("%s\"%s\":", i ? "," : "", arguments[i].name);
		if (arguments[i].out)
			printf("%" PRIu64, *arguments[i].out);
		else
			printf("%s", arguments[i].text);
	}
	printf("}}\n");
}

static void override(struct argument *arguments, int n, const char *assignment)
{
	const char *equals = strchr(assignment, '=');

	for (int i = 0; equals && i < n; i++) {
		if (strncmp(arguments[i].name, assignment, (size_t)(equals - assignment)) == 0 &&
		    arguments[i].name[equals - assignment] == 0) {
			arguments[i].given = true;
			arguments[i].value = strtoull(equals + 1, NULL, 0);
			return;
		}
	}
	fprintf(stderr, "client: no argument for %s\n", assignment);
	exit(2);
}

static void run(const char *symbol, int count, char **assignments, int assigned)
{
	const struct row *row = row_of(symbol);
	struct argument *arguments = calloc(ARGUMENTS, sizeof(*arguments));
	int n = parse(row->arguments, arguments);
	void *function = find(symbol);

	world_make(symbol);
	for (int i = 0; i < assigned; i++)
		override(arguments, n, assignments[i]);
	for (int call = 0; call < count; call++) {
		struct words w = { 0 };
		uint64_t result;

		for (int i = 0; i < n; i++)
			value_make(&arguments[i], i, call, &w);
		call_before(symbol);
		result = words_call(function, &w);
		call_after(symbol);
		print_call(symbol, call, arguments, n, result);
	}
	free(arguments);
}

static void run_lines(void)
{
	char line[4096], *words[ARGUMENTS + 2], *save;

	while (fgets(line, sizeof(line), stdin)) {
		int n = 0;

		for (char *word = strtok_r(line, " \t\n", &save); word && n < ARGUMENTS + 2;
		     word = strtok_r(NULL, " \t\n", &save))
			words[n++] = word;
		if (n >= 2)
			run(words[0], atoi(words[1]), &words[2], n - 2);
		fflush(stdout);
	}
}

static void list(void)
{
	const char *before = "[";

	for (size_t i = 0; i < row_count; i++) {
		if (!row_here(&rows[i]))
			continue;
		printf("%s{\"symbol\":\"%s\",\"arguments\":\"%s\"}", before, rows[i].symbol,
		       rows[i].arguments);
		before = ",\n";
	}
	printf("]\n");
}

static void wait_for(const char *path)
{
	struct timespec rest = { 0, 2000000 };
	struct stat st;

	while (stat(path, &st))
		nanosleep(&rest, NULL);
}

static int option(int argc, char **argv, int i)
{
	FILE *file;

	if (strcmp(argv[i], "--list") == 0) {
		list();
		exit(0);
	}
	if (i + 1 >= argc)
		return i;
	if (strcmp(argv[i], "--runtime") == 0) {
		runtime_major = atoi(argv[i + 1]);
	} else if (strcmp(argv[i], "--ready") == 0) {
		library_of("cu"); /* mapped, and nothing in it called yet */
		library_of("cuda");
		library_of("nccl");
		file = fopen(argv[i + 1], "w");
		if (file)
			fclose(file);
	} else if (strcmp(argv[i], "--start-on") == 0) {
		wait_for(argv[i + 1]);
	} else {
		return i;
	}
	return i + 2;
}

int main(int argc, char **argv)
{
	int i = 1;

	while (i < argc && strncmp(argv[i], "--", 2) == 0) {
		int next = option(argc, argv, i);

		if (next == i)
			break;
		i = next;
	}
	if (i < argc && strcmp(argv[i], "-") == 0) {
		run_lines();
	} else if (i + 1 < argc) {
		run(argv[i], atoi(argv[i + 1]), &argv[i + 2], argc - i - 2);
	} else {
		fprintf(stderr, "usage: client [--runtime 12|13] [--ready FILE] [--start-on FILE] "
				"SYMBOL COUNT [NAME=VALUE ...] | - | --list\n");
		return 2;
	}
	return 0;
}
