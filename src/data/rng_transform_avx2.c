/* rng_transform_avx2.c - the fused arithmetic in vectors of 8; compiled with AVX2 and FMA, chosen at run time. */
#include "data/rng_transform_fused.h"

const tdmi_rng_transform tdmi_rng_transform_avx2 = {fused_uniform, fused_normal};
