// SPDX-License-Identifier: Apache-2.0
/* mappers LIBRARY N: N processes that map a library as code, until the input ends. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int count = argc == 3 ? atoi(argv[2]) : 0, ready[2], over[2];
	char byte = 0;

	if (!count || pipe(ready) || pipe(over))
		return 2;
	for (int i = 0; i < count; i++) {
		if (fork())
			continue;
		close(over[1]);
		if (mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY),
			 0) == MAP_FAILED)
			_exit(2);
		(void)!write(ready[1], &byte, 1);
		(void)!read(over[0], &byte, 1);
		_exit(0);
	}
	for (int i = 0; i < count; i++)
		(void)!read(ready[0], &byte, 1);
	printf("mapped\n");
	fflush(stdout);
	(void)!read(0, &byte, 1);
	close(over[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
