/* The AVX-512 intrinsics: the compiler's, or, for the tests on machines without the instructions, those of the header
 * that the test build names in QUERN_AVX512_INTRINSICS. */
#ifndef QN_KERNELS_X86_INTRINSICS_H
#define QN_KERNELS_X86_INTRINSICS_H

#ifdef QUERN_AVX512_INTRINSICS
#include QUERN_AVX512_INTRINSICS
#else
#include <immintrin.h>
#endif

#endif
