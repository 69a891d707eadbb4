#include "cli/load_options.h"

#include <string.h>

/* in the enums' order */
static const char *const load_words[] = {"auto", "resident", "mapped"};
static const char *const pack_words[] = {"auto", "on", "off", NULL};

void qn_load_flags_add(qn_load_flags *flags, qn_option_table *table)
{
    const qn_option options[] = {
        {.name = "load",
         .kind = QN_OPTION_STRING,
         .value = &flags->load,
         .value_name = "WHERE",
         .help =
             "where the weights are: \"resident\" in memory, in 2 MiB pages; \"mapped\" from their files; \"auto\" is "
             "resident if memory suffices (default: auto)"},
        {.name = "pack-dense",
         .kind = QN_OPTION_CHOICE,
         .value = &flags->pack_dense,
         .value_name = "WHEN",
         .help = "resident BF16 weights, all but routed experts, are packed to 12 bits without loss: no answer changes "
                 "by a bit; \"auto\": if this CPU is faster with them (default: auto)",
         .choices = pack_words},
    };
    qn_options_add(table, options, sizeof options / sizeof *options);
}

qn_status qn_load_flags_read(const qn_load_flags *flags, qn_load *load, qn_pack_dense *pack_dense, qn_error *err)
{
    *load = QN_LOAD_AUTO;
    *pack_dense = QN_PACK_AUTO;
    for (size_t i = 0; flags->pack_dense != NULL && pack_words[i] != NULL; i++) {
        if (flags->pack_dense == pack_words[i]) { /* the table's own */
            *pack_dense = (qn_pack_dense)i;
        }
    }
    for (size_t i = 0; flags->load != NULL && i < sizeof load_words / sizeof *load_words; i++) {
        if (strcmp(flags->load, load_words[i]) == 0) {
            *load = (qn_load)i;
            return QN_OK;
        }
    }
    return flags->load == NULL
               ? QN_OK
               : qn_fail_field(err, QN_USAGE, "load", "--load: %s: give auto, resident or mapped", flags->load);
}
