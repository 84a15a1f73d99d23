/* golden_rng.h - values PyTorch 2.13.0 drew; made by golden_rng.py, do not edit. */
#ifndef GOLDEN_RNG_H
#define GOLDEN_RNG_H

#include <stdint.h>

static const uint32_t perm10_0[] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
static const uint32_t perm10_42[] = {2, 6, 1, 8, 4, 5, 0, 9, 3, 7};
static const uint32_t perm10_wrapped[] = {2, 6, 1, 8, 4, 5, 0, 9, 3, 7};
static const uint32_t perm16_1[] = {5, 15, 6, 4, 11, 2, 7, 12, 1, 0, 9, 8, 10, 3, 13, 14};
static const uint32_t perm6_negative[] = {2, 0, 5, 1, 3, 4};
static const uint64_t perm1000_hash = 0xb273bd53d91a769au;
static const uint64_t perm100003_hash = 0xcadedb501a835f01u;
static const int64_t randint8[] = {44, 39, 33, 60, 63, 79, 27, 3};
static const int64_t randint_wide[] = {455524090144, 1072995006626, 790770681884, 2402322195, 1088428986807, 867588729368};
static const uint32_t rand4[] = {0x3efe1558, 0x3f44aa2f, 0x3db533a8, 0x3e073300};
static const uint32_t randn5[] = {0x3fc53f5c, 0xbe963c50, 0xc00b7149, 0x3f1184b6, 0xbf8ad1a1};
static const uint32_t randn3_then_2[] = {0x3fc53f5c, 0xbe963c50, 0xc00b7149, 0x3f1184b6, 0xbf8ad1a1};
static const char bernoulli_half[] = "001000110111101111001010100001001110010111010101";
static const char bernoulli_tenth[] = "000000000000000000000000000000000000000001000001";
static const uint64_t bernoulli_hash = 0x51b0bc168e2ca67du;
static const uint32_t sampler_10_3_rank0[] = {8, 0, 6, 3};
static const uint32_t sampler_10_3_rank1[] = {4, 5, 7, 8};
static const uint32_t sampler_10_3_rank2[] = {9, 1, 2, 4};
static const uint64_t mixed_hash_avx2 = 0x57f53e28eb1afd2fu;
static const uint32_t randn16_avx2[] = {0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255d, 0x3f594515, 0x3f312783, 0xbea1cc6d, 0xc0075fc1, 0x3ea50138, 0xbfa1b4f4, 0x3eb330ff, 0x3e9dc3bb, 0x3df56f77, 0x3f9e6b93, 0x3f8ef28e, 0xbe7d367c};
static const uint32_t randn20_avx2[] = {0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255d, 0x3f194d8b, 0xbfc70d5b, 0xbeaec6ca, 0x3fed2f4e, 0x3eefaa55, 0xbe217f5f, 0x3fb8c9db, 0x3e8837a1, 0x3fb1d6c0, 0x3fcb0d00, 0x3f72409c, 0xbf57fb33, 0x3f6e8c30, 0x3fa12737, 0x4000519a, 0x3d5c1b3a};
static const uint32_t normal18_avx2[] = {0xbb126e87, 0xbc22b8ff, 0xbc66fcf3, 0xbd0343f8, 0x3bbd7675, 0x3c208558, 0xbbfc7e5b, 0xbc6951ca, 0x3c50b41b, 0xbc69fd61, 0x3b909c73, 0x3ba1623e, 0xbcd90ea4, 0x3c6462f7, 0xbc5944fd, 0x3cc7308a, 0xbd4f0a0f, 0x3cf21ec3};
static const uint32_t uniform4_avx2[] = {0xbb133267, 0x3e24cba4, 0xbe7cd6e8, 0xbe62149a};
static const uint32_t linear_weight_avx2[] = {0xbb8da3e8, 0x3e9e9313, 0xbef34b7e, 0xbed98bc9, 0xbe63b4b1, 0x3e1e8953};
static const uint32_t linear_bias_avx2[] = {0xbc3b6b40, 0x3eea617a};
static const uint64_t normal_hash_avx2 = 0x118e198c4dc3feadu;
static const uint64_t uniform_hash_avx2 = 0x2606b3efbef54e23u;
static const uint64_t linear_hash_avx2 = 0xaa41003fa867e610u;
static const uint64_t embedding_hash_avx2 = 0x3093755f12bf2755u;
static const uint32_t randn16_default[] = {0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255e, 0x3f594515, 0x3f312784, 0xbea1cc6d, 0xc0075fc2, 0x3ea50138, 0xbfa1b4f4, 0x3eb330ff, 0x3e9dc3ba, 0x3df56f77, 0x3f9e6b93, 0x3f8ef28e, 0xbe7d365a};
static const uint32_t randn20_default[] = {0xbf901b85, 0xbf93808a, 0xbe804bd6, 0xbede255e, 0x3f194d8b, 0xbfc70d5b, 0xbeaec6c7, 0x3fed2f4e, 0x3eefaa55, 0xbe217f5f, 0x3fb8c9db, 0x3e8837a1, 0x3fb1d6c0, 0x3fcb0d01, 0x3f72409c, 0xbf57fb34, 0x3f6e8c31, 0x3fa12737, 0x4000519a, 0x3d5c1b39};
static const uint32_t normal18_default[] = {0xbb126e87, 0xbc22b8ff, 0xbc66fcf2, 0xbd0343f8, 0x3bbd7675, 0x3c208558, 0xbbfc7e66, 0xbc6951c5, 0x3c50b419, 0xbc69fd62, 0x3b909c7a, 0x3ba1623e, 0xbcd90ea4, 0x3c6462f7, 0xbc5944f9, 0x3cc7308b, 0xbd4f0a0f, 0x3cf21ec3};
static const uint32_t uniform4_default[] = {0xbb133280, 0x3e24cba4, 0xbe7cd6e8, 0xbe62149a};
static const uint32_t linear_weight_default[] = {0xbb8da400, 0x3e9e9314, 0xbef34b7e, 0xbed98bc8, 0xbe63b4b2, 0x3e1e8954};
static const uint32_t linear_bias_default[] = {0xbc3b6b40, 0x3eea617c};
static const uint64_t normal_hash_default = 0x128d262d889aa299u;
static const uint64_t uniform_hash_default = 0xeccf569a70bb7cfbu;
static const uint64_t linear_hash_default = 0xa27d3a64964c2532u;
static const uint64_t embedding_hash_default = 0x2bbaf37f27e35e6bu;

#endif
