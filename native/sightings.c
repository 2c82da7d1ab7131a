// SPDX-License-Identifier: Apache-2.0
#include "sightings.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "table.h"

#define MARKS (1U << 16)	/* slots; half of them are used at most */
#define CGROUP_BYTES_MAX 65536
#define GONE 0
#define UNKNOWN 1

/* Where the parts of a PERF_RECORD_MMAP2 are; its last eight bytes are its time. */
#define PID_AT 8
#define START_AT 16
#define FILE_AT 40
#define INODE_AT 48
#define NAME_AT 72
#define TIME_BYTES 8

int sightings_begin(struct sightings *all)
{
	memset(all, 0, sizeof(*all));
	all->settled_fd = -1;
	all->marks = calloc(MARKS, sizeof(*all->marks));
	if (!all->marks)
		return -ENOMEM;
	if (getrandom(&all->secret, sizeof(all->secret), 0) < 0)
		return -errno;
	return -pthread_mutex_init(&all->lock, NULL);
}

void sightings_end(struct sightings *all)
{
	for (uint32_t i = 0; i < all->nbuffers; i++)
		munmap(all->buffers[i].page, sysconf(_SC_PAGESIZE) + all->buffers[i].size);
	ring_unmap(&all->news);
	free(all->buffers);
	free(all->marks);
	free(all->passed.bytes);
}

int sightings_open(struct sightings *all, int fd, uint64_t size)
{
	struct perf_buffer *buffers;
	void *page;

	buffers = realloc(all->buffers, (all->nbuffers + 1) * sizeof(*buffers));
	if (!buffers)
		return -ENOMEM;
	all->buffers = buffers;
	page = mmap(NULL, sysconf(_SC_PAGESIZE) + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	buffers[all->nbuffers++] = (struct perf_buffer){ page, size };
	return 0;
}

static uint64_t hash_bytes(uint64_t seed, const uint8_t *bytes, size_t count)
{
	uint64_t word;

	for (; count >= sizeof(word); bytes += sizeof(word), count -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		seed = scramble(seed, word);
	}
	word = count;
	memcpy((uint8_t *)&word + 1, bytes, count);
	return scramble(seed, word);
}

/* A number for the cgroups of a process, as /proc writes them. */
static uint64_t read_whose(uint64_t secret, uint32_t pid)
{
	uint64_t whose = secret;
	uint8_t text[4096];
	size_t sum = 0;
	char path[32];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ESRCH ? GONE : UNKNOWN;
	while ((got = read(fd, text, sizeof(text))) > 0 && sum < CGROUP_BYTES_MAX) {
		whose = hash_bytes(whose, text, got);
		sum += got;
	}
	if (got < 0)
		whose = errno == ESRCH ? GONE : UNKNOWN;
	close(fd);
	return whose;
}

static uint64_t whose_process(struct sightings *all, uint32_t pid)
{
	struct owner *owner = &all->owners[pid & (OWNERS - 1)];

	if (owner->pid != pid)
		*owner = (struct owner){ pid, read_whose(all->secret, pid) };
	return owner->whose;
}

/* Where a mark is, or would be. */
static uint64_t *slot_of(struct sightings *all, uint64_t mark)
{
	uint32_t at = mark >> 32;

	while (all->marks[at & (MARKS - 1)] && all->marks[at & (MARKS - 1)] != mark)
		at++;
	return &all->marks[at & (MARKS - 1)];
}

static int is_settled(struct sightings *all, uint64_t mark)
{
	int found;

	pthread_mutex_lock(&all->lock);
	found = *slot_of(all, mark) == mark;
	pthread_mutex_unlock(&all->lock);
	return found;
}

static void forget_marks(struct sightings *all)
{
	memset(all->marks, 0, MARKS * sizeof(*all->marks));
	all->nmarks = 0;
}

void sightings_settle(struct sightings *all, uint64_t mark)
{
	uint64_t *slot;

	pthread_mutex_lock(&all->lock);
	if (all->nmarks >= MARKS / 2)
		forget_marks(all);
	slot = slot_of(all, mark);
	all->nmarks += *slot != mark;
	*slot = mark;
	pthread_mutex_unlock(&all->lock);
}

void sightings_clear(struct sightings *all)
{
	pthread_mutex_lock(&all->lock);
	forget_marks(all);
	pthread_mutex_unlock(&all->lock);
}

/* Its record is in a buffer by now; more than there is room for come again. */
static void take_news(struct sightings *all)
{
	uint64_t position, limit, step;
	const uint8_t *news;
	uint32_t length;

	all->nfresh = 0;
	if (!all->news.producer)
		return;
	position = ring_consumed(&all->news);
	limit = ring_produced(&all->news);
	for (;;) {
		step = 0;
		news = ring_next(&all->news, position, limit, &length, &step);
		position += step;
		if (!news)
			break;
		if (all->nfresh < FRESH_MAX && length >= sizeof(*all->fresh))
			memcpy(&all->fresh[all->nfresh++], news, sizeof(*all->fresh));
	}
	ring_release(&all->news, position);
}

/* The kernel need not wake us for this file in this cgroup again. */
static void settle_in_kernel(struct sightings *all, const uint8_t *record)
{
	uint64_t start, inode;
	uint8_t yes = 1;
	uint32_t pid;

	memcpy(&pid, record + PID_AT, sizeof(pid));
	memcpy(&start, record + START_AT, sizeof(start));
	memcpy(&inode, record + INODE_AT, sizeof(inode));
	for (uint32_t i = 0; i < all->nfresh; i++) {
		struct sighting *fresh = &all->fresh[i];

		if (fresh->start != start || fresh->pid != pid || fresh->file.inode != inode)
			continue;
		bpf_map_update_elem(all->settled_fd, &fresh->file, &yes, BPF_ANY);
		*fresh = all->fresh[--all->nfresh];
		return;
	}
}

static int take_mapping(struct sightings *all, const uint8_t *record, uint32_t size)
{
	struct passed passed = { .size = size };
	uint64_t whose;
	uint32_t pid;

	if (size < NAME_AT + TIME_BYTES)
		return 0;
	memcpy(&pid, record + PID_AT, sizeof(pid));
	whose = whose_process(all, pid);
	passed.mark = scramble(all->secret, whose);
	passed.mark = hash_bytes(passed.mark, record + FILE_AT, 24);
	passed.mark = hash_bytes(passed.mark, record + NAME_AT, size - TIME_BYTES - NAME_AT) | 2;
	passed.mark = (passed.mark & ~1ULL) | (whose == GONE);
	if (is_settled(all, passed.mark)) {
		if (whose != GONE)
			settle_in_kernel(all, record);
		return 0;
	}
	if (buffer_add(&all->passed, &passed, sizeof(passed)))
		return -ENOMEM;
	return buffer_add(&all->passed, record, size) ? -ENOMEM : 0;
}

static void copy_out(const struct perf_buffer *from, uint64_t position, void *to, uint32_t count)
{
	const uint8_t *data = from->page + sysconf(_SC_PAGESIZE);
	uint64_t at = position & (from->size - 1);
	uint32_t first = count < from->size - at ? count : from->size - at;

	memcpy(to, data + at, first);
	memcpy((uint8_t *)to + first, data, count - first);
}

static int read_buffer(struct sightings *all, const struct perf_buffer *buffer)
{
	struct perf_event_mmap_page *page = (void *)buffer->page;
	uint64_t head = atomic_load_explicit((_Atomic __u64 *)&page->data_head, memory_order_acquire);
	uint64_t tail = page->data_tail;
	struct perf_event_header header;
	uint8_t record[UINT16_MAX];
	int error = 0;

	for (; tail < head && !error; tail += header.size) {
		copy_out(buffer, tail, &header, sizeof(header));
		if (header.size < sizeof(header)) {
			tail = head;
			break;
		}
		if (header.type != PERF_RECORD_MMAP2 && header.type != PERF_RECORD_LOST)
			continue;	/* Threads that began or ended come with the rest. */
		copy_out(buffer, tail, record, header.size);
		if (header.type == PERF_RECORD_MMAP2) {
			error = take_mapping(all, record, header.size);
		} else {
			uint64_t lost;

			memcpy(&lost, record + 16, sizeof(lost));
			all->lost += lost;
		}
	}
	all->taken += tail - page->data_tail;
	atomic_store_explicit((_Atomic __u64 *)&page->data_tail, tail, memory_order_release);
	return error;
}

int sightings_read(struct sightings *all)
{
	int error = 0;

	take_news(all);
	memset(all->owners, 0, sizeof(all->owners));
	for (uint32_t i = 0; i < all->nbuffers && !error; i++)
		error = read_buffer(all, &all->buffers[i]);
	return error;
}
