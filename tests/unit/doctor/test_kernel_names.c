/* test_kernel_names.c - names as traces have them. */
#include "doctor/kernel_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void products_in_float_are_told_from_those_on_tensor_cores(void **state)
{
    (void)state;
    static const char *const floats[] = {
        "ampere_sgemm_128x64_tn", "volta_sgemm_64x64_nt", "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int)",
        "volta_scudnn_128x128_stridedB_splitK_medium_nn_v1", "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)",
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1::Params)",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)"};
    static const char *const others[] = {
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16",
        "ampere_tf32_s1688gemm_128x128_ldg4_tn", "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512>(float)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        assert_true(tdmi_is_float_product(floats[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(tdmi_is_float_product(others[i]));
}

static void pointwise_kernels_are_known(void **state)
{
    (void)state;
    const char *add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)";
    const char *half = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)";
    assert_true(tdmi_is_pointwise(add) && tdmi_is_float_pointwise(add));
    assert_true(tdmi_is_pointwise(half) && !tdmi_is_float_pointwise(half));
    assert_true(tdmi_is_pointwise("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>(int)"));
    assert_false(tdmi_is_pointwise("void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float> >(float)"));
    assert_false(tdmi_is_pointwise("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<CUDAFunctor_add>(int)"));
}

static void fused_optimizers_are_told_from_lists(void **state)
{
    (void)state;
    assert_true(tdmi_is_fused_optimizer("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4> >()"));
    assert_false(tdmi_is_fused_optimizer("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<3> >()"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_float_are_told_from_those_on_tensor_cores),
        cmocka_unit_test(pointwise_kernels_are_known),
        cmocka_unit_test(fused_optimizers_are_told_from_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
