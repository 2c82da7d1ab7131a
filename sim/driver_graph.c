// SPDX-License-Identifier: Apache-2.0
#include "driver.h"

bool graph_captures(struct stream *stream, const struct capture_op *op, struct truth *rec)
{
	(void)stream;
	(void)op;
	(void)rec;
	return false;
}
