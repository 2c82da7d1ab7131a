// SPDX-License-Identifier: Apache-2.0
/* Numbers of the command line: a word that is none ends the workload, with a line that says so. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "workload.h"

static _Noreturn void no_number(const char *value)
{
	fprintf(stderr, "workload: %s is no number that this option takes\n", value);
	exit(2);
}

uint64_t whole(const char *value, uint64_t most)
{
	char *end;
	uint64_t number;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || errno || number > most)
		no_number(value);
	return number;
}

double positive(const char *value)
{
	char *end;
	double number = strtod(value, &end);

	if (end == value || *end || !isfinite(number) || number < 0)
		no_number(value);
	return number;
}
