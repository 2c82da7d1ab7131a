// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The trial of bpf/common/trial.bpf.c without what keeps it off a private stack. */
#include "common/stack.bpf.h"
#define use_task_stack(ctx)
#include "common/trial.bpf.c"
