/* The parser walks argv once; each option's value is read by its kind. Two decisions that need a word:
 * an option given twice takes its last value, as everywhere, but says so, since a forgotten first value would else be
 * ignored in silence; and a value that is itself the name of an option is refused ("--host --port 80"), since
 * it is far more often a forgotten value than a wish, and `--host=--port` still says the wish. */
#include "cli/options.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "cli/option_internal.h"
#include "cli/other_names.h"

enum { NAME_BYTES = 64 };

/* Levenshtein distance, or SIZE_MAX for words too long to be worth it. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length >= NAME_BYTES || b_length >= NAME_BYTES) {
        return SIZE_MAX;
    }
    size_t row[NAME_BYTES];
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            row[j] = replaced < shorter + 1 ? replaced : shorter + 1;
        }
    }
    return row[b_length];
}

const char *qn_nearest_name(const char *word, const char *const *names, size_t count)
{
    size_t limit = strlen(word) / 3 + 1; /* more than a third of the letters wrong is another word */
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, names[i]);
        if (distance <= limit) {
            nearest = names[i];
            limit = distance == 0 ? 0 : distance - 1;
            if (distance == 0) {
                break;
            }
        }
    }
    return nearest;
}

/* Does `name` spell the option? `_` counts as `-`. */
static bool same_name(const char *option, const char *name, size_t bytes)
{
    if (strlen(option) != bytes) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        char c = name[i] == '_' ? '-' : name[i];
        if (option[i] != c) {
            return false;
        }
    }
    return true;
}

static qn_option *find_long(qn_option_table *table, const char *name, size_t bytes)
{
    for (size_t i = 0; i < table->option_count; i++) {
        if (same_name(table->options[i].name, name, bytes)) {
            return &table->options[i];
        }
    }
    return NULL;
}

static qn_option *find_letter(qn_option_table *table, char letter)
{
    for (size_t i = 0; i < table->option_count; i++) {
        if (table->options[i].letter == letter) {
            return &table->options[i];
        }
    }
    return NULL;
}

void qn_options_add(qn_option_table *table, const qn_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(table->option_count < QN_OPTIONS_MAX);
        assert(find_long(table, options[i].name, strlen(options[i].name)) == NULL);
        table->options[table->option_count++] = options[i];
    }
}

bool qn_options_given(const qn_option_table *table, const char *name)
{
    for (size_t i = 0; i < table->option_count; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return table->given[i];
        }
    }
    return false;
}

typedef struct walk {
    qn_option_table *table;
    int argc, at; /* argv[at] is the next word */
    char **argv;
} walk;

static qn_status unknown_letter(const qn_option_table *table, const char *word, qn_error *err)
{
    char advice[QN_OTHER_NAME_BYTES];
    if (qn_other_name_advice(table, word, advice)) {
        return qn_fail(err, QN_USAGE, "%s: no such option of %s: %s", word, table->command, advice);
    }
    return qn_fail(err, QN_USAGE, "%s: no such option of %s: see quern %s --help", word, table->command,
                   table->command);
}

static qn_status unknown_option(const qn_option_table *table, const char *name, size_t bytes, qn_error *err)
{
    char dashed[NAME_BYTES + 2] = "--", *word = dashed + 2, advice[QN_OTHER_NAME_BYTES];
    size_t kept = bytes < NAME_BYTES - 1 ? bytes : NAME_BYTES - 1;
    for (size_t i = 0; i < kept; i++) {
        word[i] = name[i] == '_' ? '-' : name[i];
    }
    word[kept] = '\0';
    if (qn_other_name_advice(table, dashed, advice)) {
        return qn_fail_field(err, QN_USAGE, word, "--%s: no such option of %s: %s", word, table->command, advice);
    }
    const char *names[QN_OPTIONS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < table->option_count; i++) {
        if (table->options[i].kind != QN_OPTION_REFUSED) { /* a suggestion that is refused in its turn helps nobody */
            names[count++] = table->options[i].name;
        }
    }
    const char *near = qn_nearest_name(word, names, count);
    if (near != NULL) {
        return qn_fail_field(err, QN_USAGE, word, "--%s: no such option of %s: did you mean --%s?", word,
                             table->command, near);
    }
    return qn_fail_field(err, QN_USAGE, word, "--%s: no such option of %s: see quern %s --help", word, table->command,
                         table->command);
}

/* `name.key`, vLLM's way to say one member of an option that is a JSON object: that option, or NULL. */
static qn_option *find_by_member(qn_option_table *table, const char *name, size_t bytes)
{
    const char *dot = memchr(name, '.', bytes);
    qn_option *option = dot != NULL ? find_long(table, name, (size_t)(dot - name)) : NULL;
    bool takes_object = option != NULL && (option->kind == QN_OPTION_JSON || option->kind == QN_OPTION_NOTICE ||
                                           option->kind == QN_OPTION_REFUSED);
    return takes_object && option->value_name != NULL && strcmp(option->value_name, "JSON") == 0 ? option : NULL;
}

static bool names_an_option(qn_option_table *table, const char *word)
{
    if (word[0] != '-' || word[1] != '-' || word[2] == '\0') {
        return false;
    }
    size_t bytes = strcspn(word + 2, "=");
    return find_long(table, word + 2, bytes) != NULL || find_by_member(table, word + 2, bytes) != NULL ||
           (strncmp(word + 2, "no-", 3) == 0 && find_long(table, word + 5, bytes - 3) != NULL);
}

static qn_status apply(walk *w, qn_option *option, const char *text, bool negated, qn_error *err)
{
    bool *given = &w->table->given[option - w->table->options];
    if (*given && option->kind != QN_OPTION_LIST && option->kind != QN_OPTION_REPEATED &&
        option->kind != QN_OPTION_NOTICE) {
        qn_log("--%s: given more than once: the last one counts", option->name);
    }
    *given = true;
    return qn_option_read(option, text, negated, err);
}

/* The option's value as text: what stands behind "=" or the letter, else the next word. */
static qn_status value_text(walk *w, const qn_option *option, const char *attached, const char **out, qn_error *err)
{
    *out = attached;
    if (attached != NULL) {
        return QN_OK;
    }
    if (w->at == w->argc) {
        return qn_fail_field(err, QN_USAGE, option->name, "--%s: a value is missing: give --%s %s", option->name,
                             option->name, option->value_name);
    }
    const char *text = w->argv[w->at++];
    if (names_an_option(w->table, text)) {
        return qn_fail_field(err, QN_USAGE, option->name,
                             "--%s: a value is missing before %s: give --%s %s (or --%s=%s if that is the value)",
                             option->name, text, option->name, option->value_name, option->name, text);
    }
    *out = text;
    return QN_OK;
}

/* A LIST takes all words there are. */
static qn_status take_value(walk *w, qn_option *option, const char *attached, qn_error *err)
{
    const char *text;
    qn_status status = value_text(w, option, attached, &text, err);
    if (status == QN_OK) {
        status = apply(w, option, text, false, err);
    }
    while (status == QN_OK && option->kind == QN_OPTION_LIST && attached == NULL && w->at < w->argc &&
           w->argv[w->at][0] != '-') {
        status = apply(w, option, w->argv[w->at++], false, err);
    }
    return status;
}

/* `member` is what stands behind the option's name and a dot, up to `bytes`. */
static qn_status take_member(walk *w, qn_option *option, const char *member, size_t bytes, const char *attached,
                             qn_error *err)
{
    const char *text;
    qn_status status = value_text(w, option, attached, &text, err);
    if (status != QN_OK) {
        return status;
    }
    w->table->given[option - w->table->options] = true;
    return option->kind == QN_OPTION_JSON ? qn_option_read_member(option, member, bytes, text, err)
                                          : qn_option_read(option, text, false, err);
}

static qn_status long_option(walk *w, const char *word, qn_error *err)
{
    const char *name = word + 2;
    size_t bytes = strcspn(name, "=");
    const char *attached = name[bytes] == '=' ? name + bytes + 1 : NULL;
    if (attached == NULL && strcmp(name, "help") == 0) {
        w->table->help_shown = true;
        return QN_OK;
    }
    qn_option *option = find_long(w->table, name, bytes);
    bool negated = false;
    if (option == NULL && bytes > 3 && strncmp(name, "no-", 3) == 0) {
        option = find_long(w->table, name + 3, bytes - 3);
        negated = true;
        if (option != NULL && !qn_option_is_flag(option)) {
            return qn_fail_field(err, QN_USAGE, option->name, "--no-%s: --%s takes a value: it can't be negated",
                                 option->name, option->name);
        }
    }
    if (option == NULL) {
        option = find_by_member(w->table, name, bytes);
        size_t skipped = option != NULL ? strlen(option->name) + 1 : 0;
        return option != NULL ? take_member(w, option, name + skipped, bytes - skipped, attached, err)
                              : unknown_option(w->table, name, bytes, err);
    }
    if (!qn_option_is_flag(option)) {
        return take_value(w, option, attached, err);
    }
    if (attached != NULL) {
        return qn_fail_field(err, QN_USAGE, option->name, "--%s: takes no value: say --%s or --no-%s", option->name,
                             option->name, option->name);
    }
    return apply(w, option, NULL, negated, err);
}

/* One letter a word: -p VALUE, -pVALUE. */
static qn_status short_option(walk *w, const char *word, qn_error *err)
{
    if (strcmp(word, "-h") == 0) {
        w->table->help_shown = true;
        return QN_OK;
    }
    qn_option *option = find_letter(w->table, word[1]);
    if (option == NULL) {
        return unknown_letter(w->table, word, err);
    }
    const char *attached = word[2] != '\0' ? word + 2 : NULL;
    if (!qn_option_is_flag(option)) {
        return take_value(w, option, attached, err);
    }
    if (attached != NULL) {
        return qn_fail_field(err, QN_USAGE, option->name, "%s: -%c takes no value", word, option->letter);
    }
    return apply(w, option, NULL, false, err);
}

static qn_status plain_argument(qn_option_table *table, const char *word, qn_error *err)
{
    if (table->argument_count >= table->max_arguments || table->argument_count >= QN_ARGUMENTS_MAX) {
        return table->surplus != NULL
                   ? qn_fail(err, QN_USAGE, "%s: one argument too many for quern %s %s: %s", word, table->command,
                             table->arguments, table->surplus)
                   : qn_fail(err, QN_USAGE, "%s: one argument too many for quern %s %s: see quern %s --help", word,
                             table->command, table->arguments, table->command);
    }
    table->argument[table->argument_count++] = word;
    return QN_OK;
}

qn_status qn_options_parse(qn_option_table *table, int argc, char **argv, qn_error *err)
{
    walk w = {.table = table, .argc = argc, .at = 1, .argv = argv};
    bool options_over = false;
    while (w.at < argc) {
        const char *word = argv[w.at++];
        qn_status status;
        if (!options_over && strcmp(word, "--") == 0) {
            options_over = true;
            continue;
        }
        if (options_over || word[0] != '-' || word[1] == '\0') {
            status = plain_argument(table, word, err);
        } else if (word[1] == '-') {
            status = long_option(&w, word, err);
        } else {
            status = short_option(&w, word, err);
        }
        if (status != QN_OK) {
            return status;
        }
        if (table->help_shown) {
            qn_options_print_help(table);
            return QN_OK;
        }
    }
    if (table->argument_count < table->min_arguments) {
        return qn_fail(err, QN_USAGE, "quern %s: %s is missing: see quern %s --help", table->command, table->arguments,
                       table->command);
    }
    return QN_OK;
}
