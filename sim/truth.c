// SPDX-License-Identifier: Apache-2.0
/*
 * Records are kept in memory, per thread, until what they describe has ended on
 * the device, and are written in batches: a call costs two clock reads and a few
 * stores while it is being logged, and one branch when it is not.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"

#define FLUSH_RECORDS 2048
#define SETTLE_RECORDS 256
#define FLUSH_NS 1000000000LL

struct truth_thread {
	struct truth_thread *next;
	pthread_mutex_t lock;
	struct truth *first, **tail, *spare;
	uint32_t kept, unsettled;
	int64_t flushed;
	int tid;
	const char *outer, *outer_op;
	int64_t outer_began;
	int outer_depth;
	uint32_t outer_kept; /* records since the outer call began */
	struct truth *outer_first;
	bool gone;
};

int truth_on;
static int log_fd = -1;
static bool every_line;
static struct truth_thread *threads;
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;

struct text {
	size_t length;
	char buffer[1 << 16];
};

static void open_log(const char *name)
{
	struct stat st;
	char path[4096];
	const char *percent = strstr(name, "%p");

	if (percent)
		snprintf(path, sizeof(path), "%.*s%d%s", (int)(percent - name), name, getpid(),
			 percent + 2);
	else if (stat(name, &st) == 0 && S_ISDIR(st.st_mode))
		snprintf(path, sizeof(path), "%s/%d.jsonl", name, getpid());
	else
		snprintf(path, sizeof(path), "%s", name);
	log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	truth_on = log_fd >= 0;
}

static void text_write(struct text *text)
{
	if (log_fd < 0 && text->length)
		open_log(getenv("COTENANT_SIM_LOG"));
	for (size_t done = 0; done < text->length;) {
		ssize_t n = write(log_fd, text->buffer + done, text->length - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	text->length = 0;
}

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text->length += (size_t)vsnprintf(text->buffer + text->length, 4096, format, args);
	va_end(args);
}

static void add_string(struct text *text, const char *key, const char *value)
{
	if (!value)
		return;
	add(text, ",\"%s\":\"", key);
	for (size_t room = 4000; *value && room; value++, room--) {
		unsigned char c = (unsigned char)*value;

		if (c == '"' || c == '\\')
			text->buffer[text->length++] = '\\';
		if (c >= ' ')
			text->buffer[text->length++] = (char)c;
	}
	text->buffer[text->length++] = '"';
}

static void add_number(struct text *text, const char *key, uint64_t value)
{
	add(text, ",\"%s\":%" PRIu64, key, value);
}

static void add_call(struct text *text, const struct truth *rec)
{
	if (!(rec->has & HAS_NO_CALL)) {
		add_number(text, "t_begin", (uint64_t)rec->t_begin);
		add_number(text, "t_end", (uint64_t)rec->t_end);
		add(text, ",\"result\":%d", rec->result);
	}
	add_string(text, "outer", rec->outer);
	if (rec->outer)
		add_number(text, "outer_begin", (uint64_t)rec->outer_begin);
	if (rec->outer && rec->outer_end) {
		add_number(text, "outer_end", (uint64_t)rec->outer_end);
		add(text, ",\"outer_result\":%d", rec->outer_result);
	}
	add_string(text, "nccl", rec->nccl);
}

static void add_record(struct text *text, const struct truth *rec, int tid)
{
	if (text->length > sizeof(text->buffer) - 16384)
		text_write(text);
	add(text, "{\"api\":\"%s\",\"op\":\"%s\",\"pid\":%d,\"tid\":%d", rec->api, rec->op,
	    getpid(), tid);
	add_call(text, rec);
	add_string(text, "kernel", rec->kernel);
	if (rec->has & HAS_SHAPE)
		add(text, ",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"shared_bytes\":%u",
		    rec->grid[0], rec->grid[1], rec->grid[2], rec->block[0], rec->block[1],
		    rec->block[2], rec->shared_bytes);
	if (rec->has & HAS_STREAM)
		add_number(text, "stream", rec->stream);
	if (rec->context)
		add_number(text, "context", rec->context);
	if (rec->has & HAS_BYTES)
		add_number(text, "bytes", rec->bytes);
	add_string(text, "direction", rec->direction);
	if (rec->has & HAS_POINTER)
		add_number(text, "pointer", rec->pointer);
	if (rec->has & HAS_HANDLE)
		add_number(text, "handle", rec->handle);
	if (rec->has & HAS_GRAPH)
		add_number(text, "graph", rec->graph);
	if (rec->has & HAS_CAPTURED)
		add(text, ",\"captured\":true");
	if (rec->has & HAS_ELAPSED)
		add(text, ",\"elapsed_ms\":%.9g", (double)rec->elapsed_ms);
	if ((rec->has & HAS_DEVICE) && !rec->pending)
		add(text,
		    ",\"device_start\":%" PRId64 ",\"device_end\":%" PRId64 ",\"device_final\":%s",
		    rec->device_start, rec->device_end, rec->has & HAS_TIMES ? "true" : "false");
	add(text, "}\n");
}

static void settle(struct truth *rec)
{
	if ((rec->has & HAS_DEVICE) && !(rec->has & HAS_TIMES))
		queue_settle(rec);
}

/* Write what has ended; all of it when the process ends. The list is locked. */
static void flush(struct truth_thread *thread, bool all)
{
	struct text *text = malloc(sizeof(*text));
	struct truth **at = &thread->first, *rec;

	if (!text)
		return;
	text->length = 0;
	while ((rec = *at)) {
		settle(rec);
		if (!all && (rec->has & HAS_DEVICE) && !(rec->has & HAS_TIMES)) {
			at = &rec->next;
			continue;
		}
		add_record(text, rec, thread->tid);
		*at = rec->next;
		rec->next = thread->spare;
		thread->spare = rec;
		thread->kept--;
	}
	thread->tail = at;
	thread->outer_first = NULL;
	text_write(text);
	free(text);
}

static void settle_some(struct truth_thread *thread)
{
	thread->unsettled = 0;
	for (struct truth *rec = thread->first; rec; rec = rec->next)
		settle(rec);
}

void truth_flush_all(void)
{
	for (struct truth_thread *t = threads; t; t = t->next) {
		pthread_mutex_lock(&t->lock);
		flush(t, true);
		pthread_mutex_unlock(&t->lock);
	}
}

static struct truth_thread *my(void)
{
	struct thread *thread = self();
	struct truth_thread *t = thread->truth;

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
	t->tail = &t->first;
	t->tid = (int)syscall(SYS_gettid);
	t->flushed = now_ns();
	pthread_mutex_lock(&threads_lock);
	t->next = threads;
	threads = t;
	pthread_mutex_unlock(&threads_lock);
	return thread->truth = t;
}

void truth_thread_gone(struct truth_thread *thread)
{
	if (!thread)
		return;
	pthread_mutex_lock(&thread->lock);
	flush(thread, false);
	thread->gone = true;
	pthread_mutex_unlock(&thread->lock);
}

struct truth *truth_new(const char *api, const char *op)
{
	struct truth_thread *t = my();
	struct truth *rec;

	pthread_mutex_lock(&t->lock);
	rec = t->spare;
	if (rec)
		t->spare = rec->next;
	pthread_mutex_unlock(&t->lock);
	if (!rec)
		rec = malloc(sizeof(*rec));
	memset(rec, 0, sizeof(*rec));
	rec->api = api;
	rec->op = op;
	rec->context = (uint64_t)context_current();
	rec->t_begin = now_ns();
	return rec;
}

int truth_keep(struct truth *rec, int result)
{
	struct truth_thread *t = my();

	rec->t_end = now_ns();
	rec->result = result;
	rec->outer = t->outer;
	rec->outer_begin = t->outer_began;
	pthread_mutex_lock(&t->lock);
	*t->tail = rec;
	t->tail = &rec->next;
	if (t->outer_depth && !t->outer_first)
		t->outer_first = rec;
	t->outer_kept++;
	t->kept++;
	if (t->outer_depth == 0 &&
	    (every_line || t->kept >= FLUSH_RECORDS || rec->t_end - t->flushed > FLUSH_NS)) {
		flush(t, every_line);
		t->flushed = rec->t_end;
	} else if (++t->unsettled >= SETTLE_RECORDS) {
		settle_some(t);
	}
	pthread_mutex_unlock(&t->lock);
	return result;
}

void truth_outer_begin(const char *api, const char *op)
{
	struct truth_thread *t;

	if (!truth_on)
		return;
	t = my();
	if (t->outer_depth++)
		return;
	t->outer = api;
	t->outer_op = op;
	t->outer_kept = 0;
	t->outer_first = NULL;
	t->outer_began = now_ns();
}

int truth_outer_end(int result)
{
	struct truth_thread *t;
	int64_t ended;

	if (!truth_on)
		return result;
	t = my();
	if (t->outer_depth == 0 || --t->outer_depth)
		return result;
	ended = now_ns();
	for (struct truth *rec = t->outer_first; rec; rec = rec->next) {
		rec->outer_end = ended;
		rec->outer_result = result;
	}
	/* An outer call that caused no driver call is logged for itself. */
	if (!t->outer_kept && t->outer_op) {
		struct truth *rec = truth_new(t->outer, t->outer_op);

		rec->t_begin = t->outer_began;
		t->outer = NULL;
		return truth_keep(rec, result);
	}
	t->outer = NULL;
	if (every_line) {
		pthread_mutex_lock(&t->lock);
		flush(t, true);
		pthread_mutex_unlock(&t->lock);
	}
	return result;
}

__attribute__((constructor)) static void truth_open(void)
{
	const char *name = getenv("COTENANT_SIM_LOG");

	every_line = env_number("COTENANT_SIM_LOG_SYNC", 0) != 0;
	if (name && *name)
		open_log(name);
}

/* What the devices themselves say that this process had of them. */
static void write_shares(void)
{
	struct text *text = malloc(sizeof(*text));

	if (!text)
		return;
	text->length = 0;
	for (int i = 0; gpu_of(i); i++) {
		double share = shared_account(gpu_of(i));

		if (share > 0)
			add(text,
			    "{\"api\":\"\",\"op\":\"share\",\"pid\":%d,\"device\":%d,"
			    "\"share_ns\":%.0f}\n",
			    getpid(), i, share);
	}
	text_write(text);
	free(text);
}

__attribute__((destructor)) static void truth_close(void)
{
	if (!truth_on)
		return;
	truth_flush_all();
	if (env_number("COTENANT_SIM_LOG_SHARE", 0))
		write_shares();
}

/* The child has its own file once it has something to say, and nothing of what its parent did. */
void truth_after_fork(void)
{
	if (!truth_on)
		return;
	close(log_fd);
	log_fd = -1;
	threads = NULL;
	pthread_mutex_init(&threads_lock, NULL);
}

void truth_nccl(const struct nccl_record *call)
{
	struct text *text;

	if (!truth_on || !(text = malloc(sizeof(*text))))
		return;
	text->length = 0;
	add(text, "{\"api\":\"%s\",\"op\":\"nccl\",\"nccl\":\"%s\",\"pid\":%d,\"tid\":%d",
	    call->api, call->op, getpid(), (int)syscall(SYS_gettid));
	add_number(text, "t_begin", (uint64_t)call->t_begin);
	add_number(text, "t_end", (uint64_t)call->t_end);
	add(text, ",\"result\":%d", call->result);
#define OPTIONAL(field) \
	if (call->field >= 0) \
	add_number(text, #field, (uint64_t)call->field)
	OPTIONAL(bytes);
	OPTIONAL(count);
	OPTIONAL(group);
	OPTIONAL(datatype);
	OPTIONAL(reduce_op);
	OPTIONAL(root);
	OPTIONAL(peer);
	OPTIONAL(rank);
	OPTIONAL(nranks);
	if (call->comm)
		add_number(text, "comm", call->comm);
	if (call->comm_hash)
		add_number(text, "comm_hash", call->comm_hash);
	if (call->bytes >= 0)
		add_number(text, "stream", call->stream);
	add(text, "}\n");
	text_write(text);
	free(text);
}
