/* Help text from the table: the honoured options one by one, the names of the others below. */
#include <stdio.h>
#include <string.h>

#include "cli/option_internal.h"

enum { OPTION_BYTES = 128, HELP_COLUMN = 30, HELP_WIDTH = 100 };

/* Words of text, wrapped, the first line going on at `column`, the others indented. */
static void print_wrapped(const char *text, size_t column, size_t indent)
{
    bool fresh = true;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (!fresh && column + 1 + word > HELP_WIDTH) {
            printf("\n%*s", (int)indent, "");
            column = indent;
            fresh = true;
        }
        printf("%s%.*s", fresh ? "" : " ", (int)word, text);
        column += word + (fresh ? 0 : 1);
        fresh = false;
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_option(const qn_option *option)
{
    char left[OPTION_BYTES];
    int used = option->letter != 0 ? snprintf(left, sizeof left, "  -%c, ", option->letter)
                                   : snprintf(left, sizeof left, "  ");
    size_t at = (size_t)used;
    bool several = option->kind == QN_OPTION_LIST;
    at += (size_t)snprintf(left + at, sizeof left - at, "--%s%s%s%s", option->name,
                           option->value_name != NULL ? " " : "", option->value_name != NULL ? option->value_name : "",
                           several ? " ..." : "");
    if (at + 2 > HELP_COLUMN) {
        printf("%s\n%*s", left, HELP_COLUMN, "");
    } else {
        printf("%-*s", HELP_COLUMN, left);
    }
    print_wrapped(option->help, HELP_COLUMN, HELP_COLUMN);
}

static void print_names(const qn_option_table *table, qn_option_kind kind, const char *heading)
{
    size_t column = 0;
    for (size_t i = 0; i < table->option_count; i++) {
        const qn_option *option = &table->options[i];
        if (option->kind != kind) {
            continue;
        }
        if (column == 0) {
            printf("\n%s\n ", heading);
            column = 1;
        }
        size_t width = strlen(option->name) + 3;
        if (column + width > HELP_WIDTH) {
            printf("\n ");
            column = 1;
        }
        printf(" --%s", option->name);
        column += width;
    }
    if (column > 0) {
        putchar('\n');
    }
}

void qn_options_print_help(const qn_option_table *table)
{
    printf("usage: quern %s%s%s [options]\n\n", table->command, table->arguments[0] != '\0' ? " " : "",
           table->arguments);
    print_wrapped(table->summary, 0, 0);
    printf("\noptions:\n");
    for (size_t i = 0; i < table->option_count; i++) {
        qn_option_kind kind = table->options[i].kind;
        if (kind != QN_OPTION_NOTICE && kind != QN_OPTION_REFUSED) {
            print_option(&table->options[i]);
        }
    }
    printf("%-*s%s\n", HELP_COLUMN, "  -h, --help", "shows this");
    print_names(table, QN_OPTION_NOTICE, "accepted from vLLM with a notice, without effect:");
    print_names(table, QN_OPTION_REFUSED, "known from vLLM and refused:");
}
