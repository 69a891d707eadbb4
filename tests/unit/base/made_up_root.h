/* A folder that stands for the root of a system, to put /proc and /sys files of one's own into. */
#ifndef MADE_UP_ROOT_H
#define MADE_UP_ROOT_H

enum { MADE_UP_ROOT_BYTES = 512 };

extern char made_up_root[MADE_UP_ROOT_BYTES];

/* Setup and teardown of a test. */
int make_up_root(void **state);
int remove_made_up_root(void **state);

/* Writes a file below it, and the folders that it lies in. */
void made_up_file(const char *path, const char *text);

#endif
