/* The AVX-512 intrinsics: the compiler's, or, for the tests on machines without the instructions, an emulation of them
 * that the test build provides. */
#ifndef QN_KERNELS_X86_INTRINSICS_H
#define QN_KERNELS_X86_INTRINSICS_H

#ifdef QUERN_EMULATE_AVX512
#include "emulated_avx512.h"
#else
#include <immintrin.h>
#endif

#endif
