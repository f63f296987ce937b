// The weights of wav2vec2 under Hugging Face's names, in its layouts.
#include <fmt/format.h>

#include <array>

#include "sotto/models/wav2vec2.h"

namespace sotto::models {

namespace {

using nn::Parameter;
using nn::ParameterStore;

class Names {
 public:
  explicit Names(ParameterStore& store) : store_(store) {}

  void add(const std::string& theirs, const std::string& ours) {
    named_.push_back({.name = theirs, .tensor = value_of(ours)});
  }

  // Adds weight and bias of a part; either may be absent in ours.
  void add_part(const std::string& theirs, const std::string& ours) {
    for (const char* kind : {".weight", ".bias"}) {
      if (store_.find(ours + kind) != nullptr) add(theirs + kind, ours + kind);
    }
  }

  // q, k and v are one matrix in ours, three in theirs.
  void add_qkv(const std::string& theirs, const std::string& ours) {
    constexpr std::array kParts = {"q_proj", "k_proj", "v_proj"};
    for (const char* kind : {".weight", ".bias"}) {
      const at::Tensor whole = value_of(ours + kind);
      const int64_t rows = whole.size(0) / 3;
      for (int64_t i = 0; i < 3; ++i) {
        named_.push_back(
            {.name = fmt::format("{}.{}{}", theirs, kParts[static_cast<size_t>(i)], kind),
             .tensor = whole.narrow(0, i * rows, rows)});
      }
    }
  }

  void add_convolution(const std::string& theirs, const std::string& ours, int64_t taps) {
    const at::Tensor weight = value_of(ours + ".weight");
    named_.push_back({.name = theirs + ".weight",
                      .tensor = weight,
                      .shape = {weight.size(0), weight.size(1) / taps, taps},
                      .taps = taps});
    if (store_.find(ours + ".bias") != nullptr) add(theirs + ".bias", ours + ".bias");
  }

  // Adds both spellings of a normalised weight; the newer one is written.
  void add_normed_weight(const std::string& theirs, const std::string& ours) {
    const at::Tensor length = value_of(ours + ".length");
    named_.push_back({.name = theirs + ".parametrizations.weight.original0",
                      .tensor = length,
                      .shape = {1, 1, length.size(0)},
                      .aliases = {theirs + ".weight_g"}});
    named_.push_back({.name = theirs + ".parametrizations.weight.original1",
                      .tensor = value_of(ours + ".direction"),
                      .aliases = {theirs + ".weight_v"}});
    add(theirs + ".bias", ours + ".bias");
  }

  std::vector<NamedTensor> take() { return std::move(named_); }

 private:
  at::Tensor value_of(const std::string& name) {
    const Parameter* parameter = store_.find(name);
    SOTTO_ASSERT(parameter != nullptr, "no parameter '{}'", name);
    return parameter->value;
  }

  ParameterStore& store_;
  std::vector<NamedTensor> named_;
};

}  // namespace

std::vector<NamedTensor> Wav2Vec2::named_weights() {
  Names names(store_);
  for (size_t i = 0; i < options_.conv_kernels.size(); ++i) {
    const std::string theirs = fmt::format("wav2vec2.feature_extractor.conv_layers.{}.", i);
    names.add_convolution(theirs + "conv", fmt::format("waves.conv{}", i),
                          options_.conv_kernels[i]);
    names.add_part(theirs + "layer_norm", fmt::format("waves.norm{}", i));
  }
  names.add_part("wav2vec2.feature_projection.layer_norm", "projection.norm");
  names.add_part("wav2vec2.feature_projection.projection", "projection");
  if (store_.find("mask") != nullptr) names.add("wav2vec2.masked_spec_embed", "mask");
  const std::string encoder = "wav2vec2.encoder.";
  names.add_normed_weight(encoder + "pos_conv_embed.conv", "positions");
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
