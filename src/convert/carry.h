/* The files that go from the source's folder to the output unchanged: tokenizer, templates, generation config, licence.
 *
 * The rule goes by the name of a regular file directly in the folder (links count as what they lead to).
 *
 * Carried: LICENSE*, LICENCE*, NOTICE*, COPYING* in any case, and names that end in .json, .jsonl, .jinja, .txt, .md,
 * .py, .model, .tiktoken, .yaml or .yml, of at most QN_CARRY_LIMIT_BYTES.
 *
 * Never: hidden files; what the output has of its own: config.json, README.md, *.index.json, the manifest; what tells
 * of another quantisation: hf_quant_config.json, quantize_config.json, quant_config.json. Weights and all else stay.
 * Internal to this room. */
#ifndef QN_CONVERT_CARRY_H
#define QN_CONVERT_CARRY_H

#include <stdbool.h>

#include "base/error.h"
#include "checkpoint/manifest.h"

enum { QN_CARRY_LIMIT_BYTES = 64 << 20, QN_CARRY_MAX_FILES = 1024 };

/* Whether the rule carries a file of this name (its size and kind not looked at). */
bool qn_carry_takes(const char *name);
/* Whether it is a licence or a notice that goes with one. */
bool qn_carry_is_licence(const char *name);

/* Copies them, in the order of their names, each replaced at once or not at all, and adds them to the manifest. What is
 * left behind though it is no weights gets a line. */
qn_status qn_carry(const char *source, const char *destination, qn_manifest *manifest, qn_error *err);

#endif
