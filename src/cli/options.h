/* Command line options from a table: parsing, checking, help text.
 *
 * A command fills a qn_option_table: its own options, then shared ones added by qn_options_add; parsing writes each
 * value where its option points, so what stands there before is the default. Long options are GNU-style
 * (`--name value`, `--name=value`, `--flag`, `--no-flag`, `--` ends them); `_` in a name counts as `-`, as in vLLM, and
 * `--name.key value` says one member of an option that takes a JSON object.
 * An option belongs to one of three classes: honoured, accepted with a one-line notice, or refused by name. Whatever is
 * in no table is an error that suggests the nearest name. Nothing is ignored in silence. */
#ifndef QN_CLI_OPTIONS_H
#define QN_CLI_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { QN_OPTIONS_MAX = 256, QN_ARGUMENTS_MAX = 16, QN_STRING_LIST_MAX = 64 };

/* Points into argv. */
typedef struct qn_string_list {
    const char *items[QN_STRING_LIST_MAX];
    size_t count;
} qn_string_list;

typedef enum qn_option_kind {
    QN_OPTION_FLAG,     /* bool: --name, --no-name */
    QN_OPTION_STRING,   /* const char *: points into argv */
    QN_OPTION_INTEGER,  /* int64_t in [min, max] */
    QN_OPTION_SIZE,     /* size_t in [min, max]; suffixes as in vLLM: 32k = 32000, 32K = 32768; k m g t, K M G T; with
                           a small letter also 1.5k */
    QN_OPTION_NUMBER,   /* double in [number_min, number_max]; never NaN or infinite */
    QN_OPTION_JSON,     /* json_t *: an object, owned by the caller, who also frees what stood there before */
    QN_OPTION_CHOICE,   /* const char *: one of `choices` (the table's own pointer) */
    QN_OPTION_LIST,     /* qn_string_list: repeatable, and takes every word up to the next option */
    QN_OPTION_REPEATED, /* qn_string_list: repeatable, one word each time */
    QN_OPTION_NOTICE,   /* no value: accepted, `help` tells in a notice why it changes nothing */
    QN_OPTION_REFUSED   /* no value: an error, `help` tells why ("not in this version") */
} qn_option_kind;

typedef struct qn_option {
    const char *name; /* without the dashes */
    char letter;      /* 'p' for -p; 0: none */
    qn_option_kind kind;
    void *value;            /* where the value goes; its type follows from the kind */
    const char *value_name; /* "FILE"; NULL for a NOTICE or REFUSED without a value */
    const char *help;       /* a phrase; tells the default */
    int64_t min, max;       /* INTEGER, SIZE; both 0: no bounds */
    double number_min, number_max;
    const char *const *choices; /* CHOICE: what is allowed, up to a NULL. NOTICE: any other value is an error. REFUSED:
                                   these values ask for what quern does anyway and are fine. SIZE: words for 0, which
                                   leaves the choice to the program ("auto") */
} qn_option;

typedef struct qn_option_table {
    const char *command;   /* "serve" */
    const char *arguments; /* "MODEL_DIR", for the usage line; "" when there are none */
    const char *summary;   /* what the command does, a sentence or more */
    size_t min_arguments, max_arguments;
    const char *surplus; /* what is said to do with an argument too many; NULL: to see --help */
    qn_option options[QN_OPTIONS_MAX];
    size_t option_count;
    /* Filled by qn_options_parse. */
    const char *argument[QN_ARGUMENTS_MAX]; /* words that are not options, in order; point into argv */
    size_t argument_count;
    bool given[QN_OPTIONS_MAX]; /* options[i] was on the command line */
    bool help_shown;            /* --help was asked for and printed on stdout: the command returns 0 */
} qn_option_table;

/* Copies the entries into the table. More than QN_OPTIONS_MAX, or two of one name, is a bug and asserted. */
void qn_options_add(qn_option_table *table, const qn_option *options, size_t count);

/* argv[0] is the command's name. QN_USAGE with err->field naming the option. Notices go to qn_log. */
qn_status qn_options_parse(qn_option_table *table, int argc, char **argv, qn_error *err);

/* Was the option of this name given? */
bool qn_options_given(const qn_option_table *table, const char *name);

/* The name closest to `word` when close enough to be a slip, else NULL. */
const char *qn_nearest_name(const char *word, const char *const *names, size_t count);

#endif
