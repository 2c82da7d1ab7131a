/* Does one thing again and again for so many seconds: storm WHAT SECONDS; says how often. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void *nothing(void *unused)
{
	return unused;
}

static void thread(int file)
{
	pthread_t made;

	if (pthread_create(&made, NULL, nothing, NULL) || pthread_join(made, NULL))
		abort();
}

static void fork_one(int file)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void exec_one(int file)
{
	char *words[] = { "/bin/true", NULL };
	pid_t child;

	if (posix_spawn(&child, words[0], NULL, NULL, words, NULL))
		abort();
	waitpid(child, NULL, 0);
}

/* Two events for one look at the clock among many. */
static void message(int file)
{
	static int ends[2];
	char byte = 0;

	if (!ends[0] && socketpair(AF_UNIX, SOCK_DGRAM, 0, ends))
		abort();
	for (int i = 0; i < 1000; i++)
		if (send(ends[0], &byte, 1, 0) != 1 || recv(ends[1], &byte, 1, 0) != 1)
			abort();
}

static void map(int file)
{
	void *place = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

	if (place == MAP_FAILED || munmap(place, 4096))
		abort();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*once)(int);
	} all[] = { { "thread", thread }, { "fork", fork_one }, { "exec", exec_one }, { "map", map },
		    { "message", message } };
	int file = open("/proc/self/exe", O_RDONLY);
	double end = now() + atof(argv[2]);
	long times = 0;

	for (int i = 0; i < 5; i++)
		while (!strcmp(all[i].name, argv[1]) && now() < end) {
			all[i].once(file);
			times++;
		}
	printf("%ld\n", times);
	return 0;
}
