// SPDX-License-Identifier: Apache-2.0
/*
 * caller LIBRARY...: calls any function of these libraries, as lines of standard input say:
 *
 *   SYMBOL TIMES RESULT WORD...
 *
 * A WORD is a number, @ and bytes in hexadecimal for a pointer to them, or *@... for a pointer to
 * that pointer. RESULT is what the
 * function is to return. Each line that was called is printed again, with the process id.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 16
#define LIBRARIES 8

static void *libraries[LIBRARIES];
static int library_count;

typedef int (*any)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static uint64_t word(const char *text)
{
	size_t bytes = strlen(text + 1) / 2;
	unsigned char *copy;

	if (text[0] == '*') {
		uint64_t *holder = malloc(sizeof(*holder));

		*holder = word(text + 1);
		return (uint64_t)holder;
	}
	if (text[0] != '@')
		return strtoull(text, NULL, 0);
	/* Room beyond the end, so that a string ends; never freed: the address stays unique. */
	copy = calloc(1, bytes + 16);
	for (size_t i = 0; i < bytes; i++)
		sscanf(text + 1 + 2 * i, "%2hhx", &copy[i]);
	return (uint64_t)copy;
}

static any find(const char *symbol, int **answer)
{
	for (int i = 0; i < library_count; i++) {
		void *found = dlsym(libraries[i], symbol);

		if (found) {
			*answer = dlsym(libraries[i], "stub_answer");
			return (any)found;
		}
	}
	return NULL;
}

static void call(char *line)
{
	uint64_t w[WORDS] = { 0 };
	char *symbol = strtok(line, " \n");
	int times, result, *answer = NULL;
	any function;

	if (!symbol)
		return;
	times = atoi(strtok(NULL, " \n"));
	result = atoi(strtok(NULL, " \n"));
	for (int i = 0; i < WORDS; i++) {
		char *text = strtok(NULL, " \n");

		if (!text)
			break;
		w[i] = word(text);
	}
	function = find(symbol, &answer);
	if (!function) {
		fprintf(stderr, "no %s\n", symbol);
		exit(1);
	}
	if (answer)
		*answer = result;
	for (int i = 0; i < times; i++)
		function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],
			 w[12], w[13], w[14], w[15]);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;

	for (int i = 1; i < argc && library_count < LIBRARIES; i++) {
		libraries[library_count] = dlopen(argv[i], RTLD_NOW);
		if (!libraries[library_count++]) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
	}
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (getline(&line, &room, stdin) > 0) {
		printf("%d %s", getpid(), line);
		fflush(stdout);
		call(line);
	}
	return 0;
}
