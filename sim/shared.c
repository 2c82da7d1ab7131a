// SPDX-License-Identifier: Apache-2.0
/*
 * The device in shared memory. A tenant's place is a byte of the file that it
 * holds locked: the kernel lets go of it when the process dies, in whatever pid
 * namespace it lived. The mutex is robust for the same reason.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

#define FROZEN_SECONDS 2
#define REAP_NS 1000000000LL

static void path_of(const struct gpu *gpu, char *path, size_t size)
{
	const char *name = getenv("COTENANT_SIM_DEVICE");

	if (!name || !*name)
		name = "cotenant-sim-gpu";
	snprintf(path, size, "%s%s%d", strchr(name, '/') ? "" : "/dev/shm/", name, gpu->ordinal);
}

static void mutex_make(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static struct shared_gpu *private_gpu(void)
{
	struct shared_gpu *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return NULL;
	mutex_make(&shared->lock);
	device_reset(&shared->device);
	return shared;
}

static int file_open(const char *path)
{
	/* Opened before created: a sticky directory refuses O_CREAT on a file of another user. */
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT) {
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, 0666);
		if (fd >= 0)
			(void)!fchmod(fd, 0666);
		else if (errno == EEXIST)
			fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	}
	return fd;
}

static struct shared_gpu *file_map(int fd)
{
	struct shared_gpu *shared = MAP_FAILED;
	struct stat st;

	if (flock(fd, LOCK_EX))
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    ((size_t)st.st_size == sizeof(*shared) ||
	     (st.st_size == 0 && !posix_fallocate(fd, 0, sizeof(*shared)))))
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared != MAP_FAILED && shared->magic != DEVICE_MAGIC) {
		mutex_make(&shared->lock);
		device_reset(&shared->device);
		shared->magic = DEVICE_MAGIC;
	}
	flock(fd, LOCK_UN);
	return shared == MAP_FAILED ? NULL : shared;
}

static struct flock slot_lock(int tenant)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = tenant, .l_len = 1
	};
}

static int slot_take(int fd)
{
	for (int i = 0; i < DEVICE_TENANTS; i++) {
		struct flock lock = slot_lock(i);

		if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
			return i;
	}
	return -1;
}

static void join(struct gpu *gpu)
{
	struct device *dev = shared_lock(gpu);

	device_advance(dev, now_ns());
	device_take_turns(dev, (int64_t)env_number("COTENANT_SIM_SLICE_US", 0) * 1000);
	device_join(dev, gpu->tenant, env_real("COTENANT_SIM_SLOWDOWN", 1.5), (uint32_t)getpid());
	gpu->scheduled = 0;
	shared_unlock(gpu);
}

bool shared_open(struct gpu *gpu)
{
	struct shared_gpu *shared = NULL;
	char path[4096];

	path_of(gpu, path, sizeof(path));
	gpu->fd = file_open(path);
	if (gpu->fd >= 0)
		shared = file_map(gpu->fd);
	gpu->tenant = shared ? slot_take(gpu->fd) : -1;
	if (gpu->tenant < 0) {
		/* Alone on a device of its own is better than not running. */
		shared = private_gpu();
		gpu->tenant = 0;
	}
	if (!shared)
		return false;
	atomic_store(&gpu->shared, shared);
	join(gpu);
	return true;
}

void shared_leave(struct gpu *gpu)
{
	struct shared_gpu *alone = private_gpu();

	if (gpu->fd >= 0)
		close(gpu->fd); /* else the parent's place would stay taken for as long as the child
				   lives */
	gpu->fd = -1;
	if (alone)
		atomic_store(&gpu->shared, alone);
	gpu->tenant = 0;
}

/* A tenant that died waiting for a peer would slow the others for ever. */
static void reap(struct gpu *gpu, struct shared_gpu *shared, int64_t now)
{
	struct device *dev = &shared->device;

	shared->reaped = now;
	for (int i = 0; i < DEVICE_TENANTS; i++) {
		struct flock lock = slot_lock(i);

		if (i == gpu->tenant || !dev->tenants[i].joined || gpu->fd < 0)
			continue;
		if (fcntl(gpu->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK)
			device_leave(dev, i, now);
	}
}

struct device *shared_lock(struct gpu *gpu)
{
	for (;;) {
		struct shared_gpu *shared = atomic_load(&gpu->shared), *alone;
		struct timespec until;
		int error = pthread_mutex_trylock(&shared->lock);

		if (error == EBUSY) {
			clock_gettime(CLOCK_REALTIME, &until);
			until.tv_sec += FROZEN_SECONDS;
			error = pthread_mutex_timedlock(&shared->lock, &until);
		}
		if (error == EOWNERDEAD)
			pthread_mutex_consistent(&shared->lock);
		if (error == 0 || error == EOWNERDEAD) {
			if (shared == atomic_load(&gpu->shared))
				return &shared->device;
			pthread_mutex_unlock(&shared->lock);
			continue;
		}
		/* The holder is frozen: this process goes on alone. */
		alone = private_gpu();
		if (!alone)
			continue;
		memcpy(&alone->device, &shared->device, sizeof(alone->device));
		for (int i = 0; i < DEVICE_TENANTS; i++)
			if (i != gpu->tenant && alone->device.tenants[i].active)
				device_leave(&alone->device, i, 0);
		if (!atomic_compare_exchange_strong(&gpu->shared, &shared, alone))
			munmap(alone, sizeof(*alone));
	}
}

void shared_unlock(struct gpu *gpu)
{
	struct shared_gpu *shared = atomic_load_explicit(&gpu->shared, memory_order_relaxed);

	if (__builtin_expect(shared->device.actives > 1, 0) &&
	    shared->device.time - shared->reaped > REAP_NS)
		reap(gpu, shared, shared->device.time);
	pthread_mutex_unlock(&shared->lock);
}

/* Nanoseconds of the device that are this process's by the device's own account. */
double shared_account(struct gpu *gpu)
{
	struct device *dev;
	double share;

	if (!atomic_load(&gpu->shared))
		return 0;
	dev = shared_lock(gpu);
	device_advance(dev, now_ns());
	share = device_share(dev, gpu->tenant);
	shared_unlock(gpu);
	return share;
}

uint64_t shared_bytes_used(struct gpu *gpu)
{
	struct shared_gpu *shared = atomic_load(&gpu->shared);
	uint64_t bytes = 0;

	for (int i = 0; i < DEVICE_TENANTS; i++)
		bytes += shared->device.tenants[i].joined ? shared->device.tenants[i].bytes : 0;
	return bytes;
}
