/* index.c - the index byte by byte, and the choice between this and the vector code. */
#include "kineto/index.h"

size_t tdmi_index_plain(const uint8_t *text, size_t from, size_t to, tdmi_index_state *state, uint32_t *token)
{
    uint32_t *next = token;
    uint64_t in_string = state->in_string, escaped = state->escaped;
    for (size_t i = from; i < to; i++) {
        const uint8_t c = text[i];
        if (escaped != 0) {
            escaped = 0;
        } else if (c == '\\') {
            escaped = 1;
        } else if (c == '"') {
            in_string = ~in_string;
            *next++ = (uint32_t)i;
            continue;
        }
        if (in_string == 0 && ((c | 0x20) == '{' || (c | 0x20) == '}'))
            *next++ = (uint32_t)i;
    }
    *state = (tdmi_index_state){.in_string = in_string, .escaped = escaped};
    return (size_t)(next - token);
}

tdmi_index_function *tdmi_index_of(tdmi_isa isa)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && isa >= TDMI_ISA_AVX2)
        return isa >= TDMI_ISA_AVX512 && __builtin_cpu_supports("avx512vbmi2") ? tdmi_index_avx512 : tdmi_index_avx2;
#else
    (void)isa;
#endif
    return tdmi_index_plain;
}
