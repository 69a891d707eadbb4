#include "cli/subcommand.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"

enum { MOST = 16 };

static void print_help(const qn_subcommands *all, FILE *out)
{
    char name[32];
    size_t bytes = 0;
    for (; all->kind[bytes] != '\0' && bytes + 1 < sizeof name; bytes++) {
        name[bytes] = (char)toupper((unsigned char)all->kind[bytes]);
    }
    name[bytes] = '\0';
    fprintf(out, "usage: quern %s %s %s\n\n%s:\n", all->command, name, all->arguments, all->kinds);
    for (size_t i = 0; i < all->count; i++) {
        fprintf(out, "  %-8s %s\n", all->list[i].name, all->list[i].summary);
    }
    fprintf(out, "\nquern %s %s --help tells its options.\n", all->command, name);
}

static int unknown(const qn_subcommands *all, const char *name)
{
    const char *names[MOST];
    size_t count = 0;
    qn_error err;
    for (; count < all->count && count < MOST; count++) {
        names[count] = all->list[count].name;
    }
    const char *near = qn_nearest_name(name, names, count);
    if (near != NULL) {
        qn_fail(&err, QN_USAGE, "%s %s: no such %s: did you mean '%s'?", all->command, name, all->kind, near);
    } else {
        qn_fail(&err, QN_USAGE, "%s %s: no such %s: quern %s --help lists them", all->command, name, all->kind,
                all->command);
    }
    return qn_command_fail(&err);
}

int qn_subcommand_run(const qn_subcommands *all, int argc, char **argv)
{
    if (argc < 2) {
        print_help(all, stderr);
        return QN_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(all, stdout);
        return QN_OK;
    }
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(argv[1], all->list[i].name) == 0) {
            return all->list[i].run(argc - 1, argv + 1);
        }
    }
    return unknown(all, argv[1]);
}
