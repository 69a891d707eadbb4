#include "unit/shipped_tokenizer.h"

const int32_t shipped_eos[3] = {1515, 1522, 1524};

int shipped_tokenizer_open(qn_tokenizer **tokenizer, qn_vocabulary_trie **trie)
{
    qn_error err;
    qn_status status = qn_tokenizer_open("models/quern-tiny", tokenizer, &err);
    if (status == QN_OK && trie != NULL) {
        status = qn_tokenizer_trie(*tokenizer, trie, &err);
    }
    return status == QN_OK ? 0 : -1;
}
