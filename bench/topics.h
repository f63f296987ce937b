// The topics of sotto_bench: one function a file, which lists its pairs.
#pragma once

#include <vector>

#include "ratio.h"

namespace sotto::bench {

std::vector<Pair> gemm_pairs();
std::vector<Pair> layer_norm_pairs();
std::vector<Pair> log_mel_pairs();
std::vector<Pair> arena_pairs();
std::vector<Pair> elementwise_pairs();
std::vector<Pair> attention_pairs();
std::vector<Pair> cross_entropy_pairs();
std::vector<Pair> utterance_pairs();
std::vector<Pair> grouped_convolution_pairs();
std::vector<Pair> image_subsampling_pairs();
std::vector<Pair> depthwise_convolution_pairs();
std::vector<Pair> optimizer_pairs();

}  // namespace sotto::bench
