// The weights of Whisper under Hugging Face's names, in its layouts.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "sotto/models/files/weight_names.h"
#include "sotto/models/whisper/whisper.h"

namespace sotto::models {

namespace {

constexpr int64_t kTaps = 3;
constexpr std::string_view kKeys = "k_proj";
constexpr std::array<std::string_view, 3> kQueriesKeysValues = {"q_proj", kKeys, "v_proj"};
constexpr std::array<std::string_view, 2> kKeysValues = {kKeys, "v_proj"};

// A block of either stack; those of the decoder have cross-attention, too.
void add_block(WeightNames& names, const std::string& theirs, const std::string& ours) {
  names.add_joined(theirs + "self_attn", ours + "attention.qkv", kQueriesKeysValues, kKeys);
  names.add_part(theirs + "self_attn.out_proj", ours + "attention.out");
  names.add_part(theirs + "self_attn_layer_norm", ours + "norm1");
  if (names.has(ours + "cross.query.weight")) {
    names.add_part(theirs + "encoder_attn.q_proj", ours + "cross.query");
    names.add_joined(theirs + "encoder_attn", ours + "cross.kv", kKeysValues, kKeys);
    names.add_part(theirs + "encoder_attn.out_proj", ours + "cross.out");
    names.add_part(theirs + "encoder_attn_layer_norm", ours + "cross.norm");
  }
  names.add_part(theirs + "fc1", ours + "ffn.in");
  names.add_part(theirs + "fc2", ours + "ffn.out");
  names.add_part(theirs + "final_layer_norm", ours + "norm2");
}

}  // namespace

std::vector<NamedTensor> Whisper::named_weights() {
  WeightNames names(store_);
  const std::string encoder = "model.encoder.";
  names.add_convolution(encoder + "conv1", "subsampling.conv1", kTaps);
  names.add_convolution(encoder + "conv2", "subsampling.conv2", kTaps);
  names.add(encoder + "embed_positions.weight", "positions.weight");
  for (int64_t layer = 0; layer < options_.layers; ++layer)
    add_block(names, fmt::format("{}layers.{}.", encoder, layer),
              nn::prefix_of_block("layers", layer));
  names.add_part(encoder + "layer_norm", "norm");
  const std::string decoder = "model.decoder.";
  names.add(decoder + "embed_tokens.weight", "decoder.embedding.weight");
  names.add(decoder + "embed_positions.weight", "decoder.positions.weight");
  for (int64_t layer = 0; layer < options_.decoder_layers; ++layer)
    add_block(names, fmt::format("{}layers.{}.", decoder, layer),
              nn::prefix_of_block("decoder.layers", layer));
  names.add_part(decoder + "layer_norm", "decoder.head.norm");
  return names.take();
}

}  // namespace sotto::models
