// The weights of wav2vec2 under Hugging Face's names, in its layouts.
#include <fmt/format.h>

#include "sotto/models/files/weight_names.h"
#include "sotto/models/wav2vec2/wav2vec2.h"

namespace sotto::models {

namespace {

// Adds both spellings of a normalised weight; the newer one is written.
void add_normed_weight(WeightNames& names, const std::string& theirs, const std::string& ours) {
  const at::Tensor length = names.value_of(ours + ".length");
  names.add({.name = theirs + ".parametrizations.weight.original0",
             .tensor = length,
             .shape = {1, 1, length.size(0)},
             .aliases = {theirs + ".weight_g"}});
  names.add({.name = theirs + ".parametrizations.weight.original1",
             .tensor = names.value_of(ours + ".direction"),
             .aliases = {theirs + ".weight_v"}});
  names.add(theirs + ".bias", ours + ".bias");
}

}  // namespace

std::vector<NamedTensor> Wav2Vec2::named_weights() {
  WeightNames names(store_);
  for (size_t i = 0; i < options_.conv_kernels.size(); ++i) {
    const std::string theirs = fmt::format("wav2vec2.feature_extractor.conv_layers.{}.", i);
    names.add_convolution(theirs + "conv", fmt::format("waves.conv{}", i),
                          options_.conv_kernels[i]);
    names.add_part(theirs + "layer_norm", fmt::format("waves.norm{}", i));
  }
  names.add_part("wav2vec2.feature_projection.layer_norm", "projection.norm");
  names.add_part("wav2vec2.feature_projection.projection", "projection");
  if (names.has("mask")) names.add("wav2vec2.masked_spec_embed", "mask");
  const std::string encoder = "wav2vec2.encoder.";
  add_normed_weight(names, encoder + "pos_conv_embed.conv", "positions");
  names.add_part(encoder + "layer_norm", options_.norm_first ? "head.norm" : "positions.norm");
  for (int64_t layer = 0; layer < num_layers(); ++layer) {
    const std::string theirs = fmt::format("{}layers.{}.", encoder, layer);
    const std::string ours = nn::prefix_of_block("layers", layer);
    names.add_qkv(theirs + "attention", ours + "attention.qkv");
    names.add_part(theirs + "attention.out_proj", ours + "attention.out");
    names.add_part(theirs + "layer_norm", ours + "norm1");
    names.add_part(theirs + "feed_forward.intermediate_dense", ours + "ffn.in");
    names.add_part(theirs + "feed_forward.output_dense", ours + "ffn.out");
    names.add_part(theirs + "final_layer_norm", ours + "norm2");
  }
  names.add_part("lm_head", "head");
  return names.take();
}

}  // namespace sotto::models
