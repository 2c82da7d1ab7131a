/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One pair of functions, three ways to attach it: a session (one program for entry and return),
 * or a program for each, through one link per file or one per function.
 */
#ifndef COTENANT_SESSION_BPF_H
#define COTENANT_SESSION_BPF_H

/* Since Linux commit 99b403d2067d ("bpf: Add support for uprobe multi session attach") (v6.13). */
extern bool_t bpf_session_is_return(void) __ksym __weak;

#define PROGRAMS(name, enter, leave)                                                               \
	SEC("?uprobe") int name##_session(struct pt_regs *ctx)                                     \
	{                                                                                          \
		__u64 cookie = bpf_get_attach_cookie(ctx);                                         \
                                                                                                   \
		return bpf_session_is_return() ? leave(ctx, cookie) : enter(ctx, cookie);          \
	}                                                                                          \
	SEC("?uprobe") int name##_enter(struct pt_regs *ctx)                                       \
	{                                                                                          \
		enter(ctx, bpf_get_attach_cookie(ctx));                                            \
		return 0;                                                                          \
	}                                                                                          \
	SEC("?uprobe") int name##_return(struct pt_regs *ctx)                                      \
	{                                                                                          \
		leave(ctx, bpf_get_attach_cookie(ctx));                                            \
		return 0;                                                                          \
	}

/* What a session's entry answers: whether its return is of interest. */
enum session_answer {
	SESSION_RETURN = 0,
	SESSION_SKIP = 1,
};

#endif /* COTENANT_SESSION_BPF_H */
