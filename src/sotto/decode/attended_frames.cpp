#include "sotto/decode/attended_frames.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/error.h"
#include "sotto/decode/time_warping.h"

namespace sotto::decode {

namespace {

// Weights of an utterance's tokens: [L, M], or of each head that follows the audio.
struct Weights {
  int64_t num_frames = 0;
  std::vector<std::vector<float>> heads = {};
  bool is_mean = true;
};

// Appends the weights of a token, in row `row` of [H, M] or of [A, H, M] on the host.
void append_row(const at::Tensor& now, int64_t row, Weights& weights) {
  weights.is_mean = now.dim() == 2;
  const int64_t num_heads = weights.is_mean ? 1 : now.size(0);
  weights.heads.resize(static_cast<size_t>(num_heads));
  const int64_t rows = now.size(-2), width = now.size(-1);
  for (int64_t head = 0; head < num_heads; ++head) {
    const float* values = now.const_data_ptr<float>() + (head * rows + row) * width;
    std::vector<float>& own = weights.heads[static_cast<size_t>(head)];
    own.insert(own.end(), values, values + weights.num_frames);
  }
}

std::vector<int64_t> path_of(const Weights& weights) {
  if (weights.heads.empty()) return {};
  if (weights.is_mean) return forward_path(weights.heads.front(), weights.num_frames);
  std::vector<float> all;
  for (const std::vector<float>& head : weights.heads)
    all.insert(all.end(), head.begin(), head.end());
  return warped_frames(
      {.values = all, .num_heads = std::ssize(weights.heads), .num_frames = weights.num_frames});
}

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
                                                  const std::vector<std::vector<int32_t>>& tokens,
                                                  const AttendedInput& input) {
  SOTTO_ASSERT(std::ssize(tokens) == scorer.size(), "tokens of {} utterances", tokens.size());
  size_t longest = 0;
  for (const std::vector<int32_t>& of_one : tokens) longest = std::max(longest, of_one.size());
  std::vector<Weights> weights;
  for (size_t u = 0; u < tokens.size(); ++u) {
    const int64_t all = scorer.num_frames()[u];
    const int64_t own = input.num_frames.empty() ? all : input.num_frames[u];
    weights.push_back({.num_frames = std::clamp<int64_t>(own, 1, all)});
  }
  scorer.begin({.max_tokens = static_cast<int64_t>(longest) + 1,
                .records_frames = true,
                .prompts = input.prompts});
  for (size_t at = 0; at < longest; ++at) {
    const at::Tensor now = scorer.frame_weights();  // [utterances, M] or [A, utterances, M]
    if (now.is_meta()) break;
    const at::Tensor on_host = now.cpu().contiguous();
    std::vector<int32_t> next;
    for (size_t u = 0; u < tokens.size(); ++u) {
      // The input of an utterance that has ended does not matter.
      next.push_back(at < tokens[u].size() ? tokens[u][at] : scorer.end_token());
      if (at >= tokens[u].size()) continue;
      append_row(on_host, static_cast<int64_t>(u), weights[u]);
    }
    scorer.step(next);
  }
  std::vector<std::vector<int64_t>> frames;
  for (const Weights& of_one : weights) frames.push_back(path_of(of_one));
  return frames;
}

}  // namespace sotto::decode
