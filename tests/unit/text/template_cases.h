/* Case files of chat templates: JSON Lines of {name, template?, context, expected | error}. */
#ifndef TEMPLATE_CASES_H
#define TEMPLATE_CASES_H

#include "text/jinja/template.h"

/* Renders each case of the file, with `t` where a case has no template of its own, and compares; prints every case that
 * differs. Returns how many differ, and in *count how many there are. */
size_t template_cases_differ(const char *path, const qn_template *t, size_t *count);

/* A template from a file; fails the test when it cannot be compiled. */
qn_template *template_from_file(const char *path);

#endif
