#include "sotto/decode/attended_frames.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

// Weights of an utterance's tokens, [L, M].
struct Weights {
  int64_t num_frames = 0;
  std::vector<float> values = {};
};

std::vector<int64_t> spread_evenly(int64_t num_tokens, int64_t num_frames) {
  std::vector<int64_t> frames;
  for (int64_t token = 0; token < num_tokens; ++token)
    frames.push_back(token * num_frames / num_tokens);
  return frames;
}

}  // namespace

std::vector<int64_t> forward_path(std::span<const float> weights, int64_t num_frames) {
  if (weights.empty()) return {};
  const int64_t num_tokens = std::ssize(weights) / num_frames;
  SOTTO_ASSERT(std::ssize(weights) == num_tokens * num_frames, "{} weights of {} frames",
               weights.size(), num_frames);
  if (num_tokens > num_frames) return spread_evenly(num_tokens, num_frames);
  const auto log_weight = [&](int64_t token, int64_t frame) {
    return std::log(std::max(weights[static_cast<size_t>(token * num_frames + frame)], 1e-6f));
  };
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<float> best(static_cast<size_t>(num_tokens), kNever);
  best[0] = log_weight(0, 0);
  // Whether a frame is the first of a token. [M, L]
  std::vector<bool> begins(static_cast<size_t>(num_frames * num_tokens), false);
  for (int64_t frame = 1; frame < num_frames; ++frame) {
    for (int64_t token = num_tokens; token-- > 0;) {
      const auto t = static_cast<size_t>(token);
      const bool is_first = token > 0 && best[t - 1] > best[t];
      best[t] = (is_first ? best[t - 1] : best[t]) + log_weight(token, frame);
      begins[static_cast<size_t>(frame * num_tokens) + t] = is_first;
    }
  }
  std::vector<int64_t> frames(static_cast<size_t>(num_tokens), -1);
  int64_t token = num_tokens - 1;
  for (int64_t frame = num_frames - 1; frame >= 0; --frame) {
    int64_t& peak = frames[static_cast<size_t>(token)];
    if (peak < 0 || log_weight(token, frame) >= log_weight(token, peak)) peak = frame;
    if (begins[static_cast<size_t>(frame * num_tokens + token)]) --token;
  }
  return frames;
}

std::vector<std::vector<int64_t>> attended_frames(models::Scorer& scorer,
                                                  const std::vector<std::vector<int32_t>>& tokens) {
  SOTTO_ASSERT(std::ssize(tokens) == scorer.size(), "tokens of {} utterances", tokens.size());
  size_t longest = 0;
  for (const std::vector<int32_t>& of_one : tokens) longest = std::max(longest, of_one.size());
  std::vector<Weights> weights;
  for (const int64_t num_frames : scorer.num_frames())
    weights.push_back({.num_frames = num_frames});
  scorer.begin({.max_tokens = static_cast<int64_t>(longest) + 1, .records_frames = true});
  for (size_t at = 0; at < longest; ++at) {
    const at::Tensor now = scorer.frame_weights();  // [utterances, M]
    if (now.is_meta()) break;
    const at::Tensor on_host = now.cpu().contiguous();
    std::vector<int32_t> next;
    for (size_t u = 0; u < tokens.size(); ++u) {
      // The input of an utterance that has ended does not matter.
      next.push_back(at < tokens[u].size() ? tokens[u][at] : scorer.end_token());
      if (at >= tokens[u].size()) continue;
      const float* row =
          on_host.const_data_ptr<float>() + static_cast<int64_t>(u) * on_host.size(1);
      weights[u].values.insert(weights[u].values.end(), row, row + weights[u].num_frames);
    }
    scorer.step(next);
  }
  std::vector<std::vector<int64_t>> frames;
  for (const Weights& of_one : weights)
    frames.push_back(forward_path(of_one.values, of_one.num_frames));
  return frames;
}

}  // namespace sotto::decode
