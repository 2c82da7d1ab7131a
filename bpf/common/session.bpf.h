/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One pair of functions, three ways to attach it: a session (one program for entry and return),
 * or a program for each, through one link per file or one per function.
 *
 * A source is compiled once for each way to ask a session which end it is at: a kernel without
 * that kfunc, or with another signature of it, refuses the whole object. SESSION says which:
 *
 *     undefined   <family>.bpf.o               enter and return
 *     SESSION 1   <family>_session.bpf.o       bpf_session_is_return(void)
 *     SESSION 2   <family>_session_ctx.bpf.o   bpf_session_is_return(ctx)
 */
#ifndef COTENANT_SESSION_BPF_H
#define COTENANT_SESSION_BPF_H

#include "common/stack.bpf.h"

#if SESSION == 1
/* Since Linux commit 99b403d2067d ("bpf: Add support for uprobe multi session attach") (v6.13). */
extern bool_t bpf_session_is_return(void) __ksym;
#define at_return(ctx) bpf_session_is_return()
#elif SESSION == 2
/* Since v7.0 it takes the context. */
extern bool_t bpf_session_is_return(void *ctx) __ksym;
#define at_return(ctx) bpf_session_is_return(ctx)
#endif

/* Whether recording is over: probes may stay for a while until they can be removed safely. */
static __always_inline bool_t is_off(void)
{
	struct control *now = control();

	return now && now->off;
}

#if SESSION
#define PROGRAMS(name, enter, leave)                                                               \
	SEC("?uprobe") int name##_session(struct pt_regs *ctx)                                     \
	{                                                                                          \
		__u64 cookie;                                                                      \
                                                                                                   \
		use_task_stack(ctx);                                                               \
		if (is_off())                                                                      \
			return SESSION_SKIP;                                                       \
		cookie = bpf_get_attach_cookie(ctx);                                               \
		return at_return(ctx) ? leave(ctx, cookie) : enter(ctx, cookie);                   \
	}
#else
#define PROGRAMS(name, enter, leave)                                                               \
	SEC("?uprobe") int name##_enter(struct pt_regs *ctx)                                       \
	{                                                                                          \
		use_task_stack(ctx);                                                               \
		if (is_off())                                                                      \
			return 0;                                                                  \
		enter(ctx, bpf_get_attach_cookie(ctx));                                            \
		return 0;                                                                          \
	}                                                                                          \
	SEC("?uprobe") int name##_return(struct pt_regs *ctx)                                      \
	{                                                                                          \
		use_task_stack(ctx);                                                               \
		if (is_off())                                                                      \
			return 0;                                                                  \
		leave(ctx, bpf_get_attach_cookie(ctx));                                            \
		return 0;                                                                          \
	}
#endif

/* What a session's entry answers: whether its return is of interest. */
enum session_answer {
	SESSION_RETURN = 0,
	SESSION_SKIP = 1,
};

#endif /* COTENANT_SESSION_BPF_H */
