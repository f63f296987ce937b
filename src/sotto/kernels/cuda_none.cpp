// Replaces all x_cuda.cu in builds without CUDA: these functions are only reached with a tensor on
// a GPU, which such a build cannot create.
#include <span>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/convolution/convolution_shape.h"
#include "sotto/kernels/convolution/window_arrays.h"
#include "sotto/kernels/features/log_mel_windows.h"
#include "sotto/kernels/loss/cross_entropy_task.h"
#include "sotto/kernels/loss/ctc_lattice.h"
#include "sotto/kernels/norm/norm_arrays.h"
#include "sotto/kernels/norm/wave_norm_arrays.h"
#include "sotto/kernels/norm/weight_norm_arrays.h"
#include "sotto/kernels/optimizer/adamw_factors.h"

namespace sotto::kernels::detail {

namespace {

[[noreturn]] void throw_cuda_not_built(std::string_view kernel) {
  throw ConfigError({.attempted = fmt::format("running {} on a GPU", kernel),
                     .found = "this build of sotto has no CUDA kernels",
                     .expected = "a build with SOTTO_CUDA=ON",
                     .hint = "Configure with -DSOTTO_CUDA=ON, or use --device cpu."});
}

}  // namespace

void activation_forward_cuda(ActivationKind /*kind*/, const CudaArray& /*x*/,
                             const CudaArray& /*y*/, void* /*stream*/) {
  throw_cuda_not_built("an activation");
}

void activation_forward_dropped_cuda(ActivationKind /*kind*/, const CudaArray& /*x*/,
                                     const CudaArray& /*y*/, const CudaDropout& /*dropout*/,
                                     void* /*stream*/) {
  throw_cuda_not_built("an activation");
}

void activation_backward_cuda(ActivationKind /*kind*/, const CudaArray& /*dy*/,
                              const CudaArray& /*x*/, void* /*stream*/) {
  throw_cuda_not_built("an activation");
}

void activation_backward_dropped_cuda(ActivationKind /*kind*/, const CudaArray& /*dy*/,
                                      const CudaArray& /*x*/, const CudaDropout& /*dropout*/,
                                      void* /*stream*/) {
  throw_cuda_not_built("an activation");
}

void adamw_cuda(const CudaAdamWRange& /*range*/, const AdamWFactors& /*factors*/,
                const double* /*square_sum*/, void* /*stream*/) {
  throw_cuda_not_built("AdamW");
}

void attention_plain_gradient_cuda(const CudaPlainScores& /*task*/, void* /*stream*/) {
  throw_cuda_not_built("Attention");
}

void attention_plain_softmax_cuda(const CudaPlainScores& /*task*/, void* /*stream*/) {
  throw_cuda_not_built("Attention");
}

void attention_forward_cuda(const CudaAttentionTask& /*task*/, void* /*stream*/) {
  throw_cuda_not_built("Attention");
}

void attention_backward_cuda(const CudaAttentionTask& /*task*/,
                             const CudaAttentionGradients& /*gradients*/, void* /*stream*/) {
  throw_cuda_not_built("Attention");
}

void cast_cuda(const CudaArray& /*x*/, const CudaArray& /*y*/, void* /*stream*/) {
  throw_cuda_not_built("Cast");
}

void cast_add_cuda(const CudaArray& /*x*/, const CudaArray& /*sum*/, void* /*stream*/) {
  throw_cuda_not_built("Cast");
}

void column_sum_cuda(const CudaArray& /*x*/, const CudaArray& /*partial*/, const CudaArray& /*sum*/,
                     void* /*stream*/) {
  throw_cuda_not_built("ColumnSum");
}

void cross_entropy_gather_cuda(const CudaArray& /*x*/, const CrossEntropyRow* /*rows*/,
                               const CudaArray& /*to*/, void* /*stream*/) {
  throw_cuda_not_built("CrossEntropy");
}

void cross_entropy_rows_cuda(const CudaArray& /*logits*/, const CrossEntropyTask& /*task*/,
                             void* /*stream*/) {
  throw_cuda_not_built("CrossEntropy");
}

void cross_entropy_scatter_cuda(const CudaArray& /*from*/, const CrossEntropyRow* /*rows*/,
                                const CudaArray& /*dx*/, void* /*stream*/) {
  throw_cuda_not_built("CrossEntropy");
}

void cross_entropy_sum_cuda(const float* /*row_losses*/, const CudaPack& /*pack*/, float* /*loss*/,
                            void* /*stream*/) {
  throw_cuda_not_built("CrossEntropy");
}

void convolution_expand_cuda(const CudaArray& /*taps*/, const CudaArray& /*matrix*/,
                             const ConvolutionShape& /*shape*/, void* /*stream*/) {
  throw_cuda_not_built("GroupedConvolution");
}

void convolution_fold_cuda(const CudaArray& /*matrix*/, const CudaArray& /*grad_weight*/,
                           const ConvolutionShape& /*shape*/, void* /*stream*/) {
  throw_cuda_not_built("GroupedConvolution");
}

void convolution_gather_cuda(const CudaBlockRows& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("GroupedConvolution");
}

void convolution_order_cuda(const CudaTaps& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("GroupedConvolution");
}

void convolution_scatter_cuda(const CudaBlockRows& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("GroupedConvolution");
}

void ctc_cuda(const CudaCtc& /*problem*/, void* /*stream*/) {
  throw_cuda_not_built("Ctc");
}

void ctc_greedy_cuda(const CudaArray& /*logits*/, int64_t /*blank*/, int32_t* /*best*/,
                     void* /*stream*/) {
  throw_cuda_not_built("CtcGreedy");
}

void dropout_cuda(const CudaArray& /*x*/, const CudaArray& /*y*/, const CudaDropout& /*dropout*/,
                  void* /*stream*/) {
  throw_cuda_not_built("Dropout");
}

void embedding_forward_cuda(const int32_t* /*ids*/, const CudaArray& /*table*/,
                            const CudaArray& /*y*/, void* /*stream*/) {
  throw_cuda_not_built("Embedding");
}

void embedding_backward_cuda(const CudaArray& /*dy*/, const int32_t* /*ids*/,
                             const CudaArray& /*grad_table*/, void* /*stream*/) {
  throw_cuda_not_built("Embedding");
}

void fill_rows_cuda(const CudaArray& /*x*/, const int32_t* /*rows*/, int64_t /*num_rows*/,
                    const float* /*value*/, void* /*stream*/) {
  throw_cuda_not_built("FrameMask");
}

void sum_rows_cuda(const CudaArray& /*dy*/, const int32_t* /*rows*/, int64_t /*num_rows*/,
                   const CudaArray& /*partial*/, float* /*sum*/, void* /*stream*/) {
  throw_cuda_not_built("FrameMask");
}

void zero_columns_cuda(const CudaArray& /*x*/, const CudaPack& /*pack*/, const uint8_t* /*hidden*/,
                       void* /*stream*/) {
  throw_cuda_not_built("FrameMask");
}

void frame_windows_forward_cuda(const FrameWindowArrays& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("FrameWindows");
}

void frame_windows_backward_cuda(const FrameWindowArrays& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("FrameWindows");
}

void glu_forward_cuda(const CudaArray& /*x*/, const CudaArray& /*y*/, void* /*stream*/) {
  throw_cuda_not_built("Glu");
}

void glu_backward_cuda(const CudaArray& /*dy*/, const CudaArray& /*x*/, const CudaArray& /*dx*/,
                       void* /*stream*/) {
  throw_cuda_not_built("Glu");
}

void group_norm_forward_cuda(const GroupNormForward& /*in*/, const CudaPack& /*pack*/,
                             void* /*stream*/) {
  throw_cuda_not_built("GroupNorm");
}

void group_norm_backward_cuda(const GroupNormBackward& /*in*/, const CudaPack& /*pack*/,
                              void* /*stream*/) {
  throw_cuda_not_built("GroupNorm");
}

void layer_norm_forward_cuda(const RowNormForward& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("LayerNorm");
}

void layer_norm_backward_cuda(const RowNormBackward& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("LayerNorm");
}

void log_mel_gather_cuda(const CudaLogMelFrames& /*frames*/, int64_t /*first*/,
                         const CudaArray& /*rows*/, void* /*stream*/) {
  throw_cuda_not_built("LogMel");
}

void log_mel_limit_cuda(const CudaArray& /*features*/, const CudaLogMelFrames& /*frames*/,
                        void* /*stream*/) {
  throw_cuda_not_built("LogMel");
}

void log_mel_logarithm_cuda(const CudaArray& /*features*/, const LogMelLogarithm& /*logarithm*/,
                            void* /*stream*/) {
  throw_cuda_not_built("LogMel");
}

void log_mel_square_cuda(const CudaArray& /*spectrum*/, void* /*stream*/) {
  throw_cuda_not_built("LogMel");
}

void log_mel_standardise_cuda(const CudaArray& /*features*/, const CudaLogMelFrames& /*frames*/,
                              void* /*stream*/) {
  throw_cuda_not_built("LogMel");
}

void position_add_backward_cuda(const CudaArray& /*dy*/, const CudaArray& /*grad_table*/,
                                const CudaPack& /*pack*/, void* /*stream*/) {
  throw_cuda_not_built("PositionAdd");
}

void position_add_cuda(const CudaArray& /*x*/, const CudaArray& /*table*/, const CudaPack& /*pack*/,
                       void* /*stream*/) {
  throw_cuda_not_built("PositionAdd");
}

void residual_add_cuda(const CudaArray& /*x*/, const CudaArray& /*residual*/, void* /*stream*/) {
  throw_cuda_not_built("ResidualAdd");
}

void residual_add_dropped_cuda(const CudaArray& /*x*/, const CudaArray& /*residual*/,
                               const CudaDropout& /*dropout*/, void* /*stream*/) {
  throw_cuda_not_built("ResidualAdd");
}

void rms_norm_forward_cuda(const RowNormForward& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("RmsNorm");
}

void rms_norm_backward_cuda(const RowNormBackward& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("RmsNorm");
}

void sinusoid_add_cuda(const CudaArray& /*x*/, const CudaPack& /*pack*/, void* /*stream*/) {
  throw_cuda_not_built("SinusoidAdd");
}

void softmax_forward_cuda(const CudaArray& /*x*/, const CudaArray& /*y*/, void* /*stream*/) {
  throw_cuda_not_built("Softmax");
}

void softmax_backward_cuda(const CudaArray& /*dy*/, const CudaArray& /*y*/, const CudaArray& /*dx*/,
                           void* /*stream*/) {
  throw_cuda_not_built("Softmax");
}

void square_sum_cuda(const CudaArray& /*values*/, std::span<double> /*partial*/, double* /*total*/,
                     void* /*stream*/) {
  throw_cuda_not_built("SquareSum");
}

void wave_moments_cuda(const WaveMoments& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("WaveNorm");
}

void wave_fold_cuda(const WaveFold& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("WaveNorm");
}

void wave_backward_cuda(const WaveFold& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("WaveNorm");
}

void weight_norm_forward_cuda(const WeightNormForward& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("WeightNorm");
}

void weight_norm_backward_cuda(const WeightNormBackward& /*in*/, void* /*stream*/) {
  throw_cuda_not_built("WeightNorm");
}

}  // namespace sotto::kernels::detail
