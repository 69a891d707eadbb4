/* Bytes that no set of a grammar tells apart: they lead to the same place from anywhere in it. */
#ifndef QN_GRAMMAR_BYTE_CLASSES_H
#define QN_GRAMMAR_BYTE_CLASSES_H

#include "grammar/grammar_internal.h"

typedef struct qn_byte_classes {
    uint8_t of[256];
    uint16_t count; /* classes are 0 .. count - 1 */
} qn_byte_classes;

/* The largest classes there are; every byte its own where finding them would take long. */
void qn_byte_classes_find(const qn_grammar *grammar, qn_byte_classes *out);

#endif
