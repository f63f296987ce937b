// The weights of Parakeet under Hugging Face's names, in its layouts.
#include <fmt/format.h>

#include "sotto/models/files/weight_names.h"
#include "sotto/models/parakeet/parakeet.h"

namespace sotto::models {

namespace {

std::vector<int64_t> image_kernel() {
  return {3, 3};
}

// Stages of the subsampling are three layers there: depthwise and pointwise convolution, and an
// activation; the first stage is one convolution and an activation.
void add_subsampling(WeightNames& names, const ParakeetOptions& options) {
  const std::string theirs = "encoder.subsampling.";
  names.add_part(theirs + "layers.0", "subsampling.conv1", image_kernel());
  int64_t layer = 2;
  for (int64_t stage = 2; (int64_t{1} << stage) <= options.subsampling_factor; ++stage) {
    const std::string ours = fmt::format("subsampling.conv{}", stage);
    names.add_part(fmt::format("{}layers.{}", theirs, layer), ours + ".depthwise", image_kernel());
    names.add_part(fmt::format("{}layers.{}", theirs, layer + 1), ours + ".pointwise", {1, 1});
    layer += 3;
  }
  // Theirs goes channel by channel, ours bin by bin.
  const at::Tensor weight = names.value_of("subsampling.projection.weight");
  names.add({.name = theirs + "linear.weight",
             .tensor = weight,
             .taps = weight.size(1) / options.subsampling_channels});
  names.add(theirs + "linear.bias", "subsampling.projection.bias");
}

void add_attention(WeightNames& names, const std::string& theirs, const std::string& ours,
                   const ParakeetOptions& options) {
  names.add_qkv(theirs, ours + ".qkv");
  names.add_part(theirs + ".o_proj", ours + ".out");
  names.add_part(theirs + ".relative_k_proj", ours + ".position");
  const std::vector<int64_t> by_head = {options.heads, options.width / options.heads};
  names.add(theirs + ".bias_u", ours + ".content_bias", by_head);
  names.add(theirs + ".bias_v", ours + ".position_bias", by_head);
}

void add_convolution_module(WeightNames& names, const std::string& theirs, const std::string& ours,
                            const ParakeetOptions& options) {
  names.add_part(theirs + ".pointwise_conv1", ours + ".expand", {1});
  names.add_part(theirs + ".depthwise_conv", ours + ".depthwise", {options.kernel});
  names.add_part(theirs + ".pointwise_conv2", ours + ".project", {1});
  names.add_part(theirs + ".norm", ours + ".inner_norm");
  if (!names.has(ours + ".inner_norm.running_mean")) return;
  names.add(theirs + ".norm.running_mean", ours + ".inner_norm.running_mean");
  names.add({.name = theirs + ".norm.running_var",
             .tensor = names.value_of(ours + ".inner_norm.running_variance"),
             .counter = theirs + ".norm.num_batches_tracked"});
}

void add_transducer(WeightNames& names, const TransducerOptions& options) {
  names.add_part("encoder_projector", "transducer.encoder");
  names.add("decoder.embedding.weight", "transducer.prediction.embedding.weight");
  for (int64_t layer = 0; layer < options.layers; ++layer)
    for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
      names.add(fmt::format("decoder.lstm.{}_l{}", part, layer),
                fmt::format("transducer.prediction.lstm.{}.{}", layer, part));
  names.add_part("decoder.decoder_projector", "transducer.projection");
  names.add_part("joint.head", "transducer.output");
}

}  // namespace

std::vector<NamedTensor> Parakeet::named_weights() {
  WeightNames names(store_);
  add_subsampling(names, options_);
  for (int64_t layer = 0; layer < options_.layers; ++layer) {
    const std::string theirs = fmt::format("encoder.layers.{}.", layer);
    const std::string ours = nn::prefix_of_block("layers", layer);
    for (const char* half : {"1", "2"}) {
      names.add_part(theirs + "norm_feed_forward" + half, ours + "ffn" + half + ".norm");
      names.add_part(theirs + "feed_forward" + half + ".linear1", ours + "ffn" + half + ".in");
      names.add_part(theirs + "feed_forward" + half + ".linear2", ours + "ffn" + half + ".out");
    }
    names.add_part(theirs + "norm_self_att", ours + "attention.norm");
    add_attention(names, theirs + "self_attn", ours + "attention", options_);
    names.add_part(theirs + "norm_conv", ours + "convolution.norm");
    add_convolution_module(names, theirs + "conv", ours + "convolution", options_);
    names.add_part(theirs + "norm_out", ours + "norm");
  }
  if (options_.has_transducer()) {
    add_transducer(names, options_.transducer);
  } else {
    names.add_part("ctc_head", "ctc", {1});
  }
  return names.take();
}

}  // namespace sotto::models
