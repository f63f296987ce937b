// Rows of the kernel table: the kernels that know the boundaries of utterances.
#include <algorithm>
#include <cmath>

#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/attention/row_attention.h"
#include "sotto/kernels/convolution/frame_windows.h"
#include "sotto/kernels/elementwise/position_add.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/kernels/loss/ctc.h"
#include "sotto/kernels/loss/ctc_greedy.h"
#include "support/attention_reference.h"
#include "support/kernel_case_tools.h"

namespace sotto::test {

namespace {

using namespace sotto::kernels;  // NOLINT: the table names kernels on every line

// --- attention: inputs qkv, dy; results y, dqkv

std::vector<Input> attention_inputs(const Shape& s) {
  return {data({s.rows, 3 * s.width}, 1), data({s.rows, s.width}, 2)};
}

Attention::Options attention_options(int64_t width, Attention::Variant variant) {
  const int64_t heads = width % 4 == 0 ? 4 : width % 3 == 0 ? 3 : 1;
  return {.num_heads = heads, .variant = variant};
}

template <Attention::Variant kVariant>
Tensors run_attention(const Tensors& in, const Packing& packing) {
  const Attention::Options options = attention_options(in[1].size(1), kVariant);
  const Attention::Result result = Attention::forward(in[0], packing, options);
  at::Tensor dqkv = Attention::backward(
      {.dy = in[1], .qkv = in[0], .y = result.y, .softmax = result.softmax}, packing, options);
  return {result.y, dqkv};
}
Tensors reference_attention(const Tensors& in, const Packing& packing) {
  const AttentionTruth truth =
      attention_truth({.qkv = in[0], .dy = in[1]}, packing,
                      attention_options(in[1].size(1), Attention::Variant::kTiled));
  return {truth.y, truth.dqkv};
}

// --- attention with relative positions: inputs qkv, dy, positions, both biases; results y, dqkv
// and the gradients of the others, and all of it once more in a window

Attention::Options in_a_window(Attention::Options options) {
  options.left = 9;
  options.right = 2;
  return options;
}

// Two distances on each side are in no utterance.
std::vector<Input> attention_relative_inputs(const Shape& s) {
  const int64_t longest = std::ranges::max(lengths_for(s.rows));
  return {data({s.rows, 3 * s.width}, 34), data({s.rows, s.width}, 35),
          data({2 * (longest + 2) - 1, s.width}, 36), parameter({s.width}, 37),
          parameter({s.width}, 38)};
}

Tensors run_attention_relative(const Tensors& in, const Packing& packing) {
  const Attention::Options everywhere =
      attention_options(in[1].size(1), Attention::Variant::kTiled);
  Tensors results;
  for (const Attention::Options& options : {everywhere, in_a_window(everywhere)}) {
    at::Tensor d_content = float_zeros(in[3].sizes(), in[3]);
    at::Tensor d_position = float_zeros(in[4].sizes(), in[4]);
    Attention::Relative::Gradients gradients{.content_bias = d_content,
                                             .position_bias = d_position};
    const Attention::Relative relative{
        .positions = in[2], .content_bias = in[3], .position_bias = in[4], .gradients = &gradients};
    const Attention::Result result = Attention::forward(in[0], packing, options, &relative);
    const at::Tensor dqkv =
        Attention::backward({.dy = in[1], .qkv = in[0], .y = result.y, .softmax = result.softmax},
                            packing, options, &relative);
    results.insert(results.end(), {result.y, dqkv, gradients.positions, d_content, d_position});
  }
  return results;
}
Tensors reference_attention_relative(const Tensors& in, const Packing& packing) {
  const Attention::Options everywhere =
      attention_options(in[1].size(1), Attention::Variant::kTiled);
  Tensors results;
  for (const Attention::Options& options : {everywhere, in_a_window(everywhere)}) {
    const AttentionTruth truth = attention_truth({.qkv = in[0],
                                                  .dy = in[1],
                                                  .positions = in[2],
                                                  .content_bias = in[3],
                                                  .position_bias = in[4]},
                                                 packing, options);
    results.insert(results.end(), {truth.y, truth.dqkv, truth.d_positions, truth.d_content_bias,
                                   truth.d_position_bias});
  }
  return results;
}

// --- cross-attention: inputs q, kv, dy, the keys in the pack; results y, dq, dkv

// Queries that are fewer than the keys, and more, in turn.
std::vector<int64_t> query_lengths_for(const std::vector<int64_t>& key_lengths) {
  std::vector<int64_t> lengths;
  for (const int64_t keys : key_lengths)
    lengths.push_back(lengths.size() % 2 == 0 ? 1 + keys / 5 : 2 * keys + 1);
  return lengths;
}

std::vector<Input> cross_attention_inputs(const Shape& s) {
  int64_t queries = 0;
  for (const int64_t length : query_lengths_for(lengths_for(s.rows))) queries += length;
  return {data({queries, s.width}, 1), data({s.rows, 2 * s.width}, 2), data({queries, s.width}, 3)};
}
Tensors run_cross_attention(const Tensors& in, const Packing& packing) {
  const Attention::Options options = attention_options(in[0].size(1), Attention::Variant::kTiled);
  const Packing queries(query_lengths_for(packing.lengths()), in[0].device());
  const Attention::Packs packs{.queries = queries, .keys = packing};
  const Attention::Result result =
      Attention::forward_cross({.q = in[0], .kv = in[1]}, packs, options);
  const Attention::CrossGradients gradients = Attention::backward_cross(
      {.dy = in[2], .q = in[0], .kv = in[1], .y = result.y, .softmax = result.softmax}, packs,
      options);
  return {result.y, gradients.dq, gradients.dkv};
}
Tensors reference_cross_attention(const Tensors& in, const Packing& packing) {
  const Packing queries(query_lengths_for(packing.lengths()), at::kCPU);
  const int64_t heads = attention_options(in[0].size(1), Attention::Variant::kTiled).num_heads;
  const CrossAttentionTruth truth = cross_attention_truth(
      {.q = in[0], .kv = in[1], .dy = in[2]}, {.queries = queries, .keys = packing}, heads);
  return {truth.y, truth.dq, truth.dkv};
}

// --- attention of single queries: inputs q, kv; results y over ranges and over lists of rows, and
// the mean weights of both

// Query i sees an utterance of the pack, or every other row of it from the last.
struct SeenByQueries {
  std::vector<SeenRows::Range> ranges = {};
  std::vector<std::vector<int32_t>> lists = {};
};

SeenByQueries seen_by_queries(int64_t num_queries, const Packing& packing) {
  SeenByQueries seen;
  for (int64_t query = 0; query < num_queries; ++query) {
    const auto u = static_cast<size_t>(query % packing.num_utterances());
    const int64_t first = packing.starts()[u], end = packing.starts()[u + 1];
    seen.ranges.push_back({.first = first, .count = end - first});
    std::vector<int32_t>& list = seen.lists.emplace_back();
    for (int64_t row = end - 1; row >= first; row -= 2) list.push_back(static_cast<int32_t>(row));
  }
  return seen;
}

std::vector<Input> row_attention_inputs(const Shape& s) {
  return {data({s.rows, s.width}, 1), data({s.rows, 2 * s.width}, 2)};
}
Tensors run_row_attention(const Tensors& in, const Packing& packing) {
  const int64_t heads = attention_options(in[0].size(1), Attention::Variant::kTiled).num_heads;
  const SeenByQueries by = seen_by_queries(in[0].size(0), packing);
  SeenRows seen(in[0].size(0), in[0].size(0) * packing.max_length(), in[0].device());
  at::Tensor weights = float_zeros({in[0].size(0), packing.max_length()}, in[0]);
  const RowAttention::Inputs inputs{.q = in[0], .kv = in[1]};
  Tensors results;
  for (const bool has_lists : {false, true}) {
    if (has_lists) {
      seen.set_lists(by.lists);
    } else {
      seen.set_ranges(by.ranges);
    }
    results.push_back(RowAttention::forward(inputs, seen, heads));
    RowAttention::add_weights(inputs, seen, heads, 0.5, weights);
  }
  results.push_back(weights);
  return results;
}
Tensors reference_row_attention(const Tensors& in, const Packing& packing) {
  const int64_t heads = attention_options(in[0].size(1), Attention::Variant::kTiled).num_heads;
  const int64_t size = in[0].size(1) / heads;
  const SeenByQueries by = seen_by_queries(in[0].size(0), packing);
  const at::Tensor weights = at::zeros({in[0].size(0), packing.max_length()}, at::kDouble);
  Tensors results;
  for (const bool has_lists : {false, true}) {
    at::Tensor y = at::zeros_like(in[0]);
    for (int64_t query = 0; query < in[0].size(0); ++query) {
      const auto& list = by.lists[static_cast<size_t>(query)];
      const SeenRows::Range& range = by.ranges[static_cast<size_t>(query)];
      const at::Tensor rows = has_lists ? at::tensor(std::vector<int64_t>(list.begin(), list.end()))
                                        : at::arange(range.first, range.first + range.count);
      const at::Tensor kv = in[1].index_select(0, rows).view({-1, 2, heads, size});
      const at::Tensor q = in[0][query].view({heads, 1, size});
      const at::Tensor scores =
          at::matmul(q, kv.select(1, 0).permute({1, 2, 0})) / std::sqrt(static_cast<double>(size));
      const at::Tensor p = at::softmax(scores, -1);  // [H, 1, rows]
      y[query] = at::matmul(p, kv.select(1, 1).transpose(0, 1)).reshape({-1});
      weights[query].narrow(0, 0, rows.numel()) += 0.5 * p.mean(0)[0];
    }
    results.push_back(y);
  }
  results.push_back(weights);
  return results;
}

// --- windows of frames: inputs x, and dy that is folded to the windows of 3 frames, stride 2

constexpr FrameWindows::Options kWindows{.size = 3, .stride = 2, .before = 1};

std::vector<Input> windows_inputs(const Shape& s) {
  const std::vector<int64_t> lengths = lengths_for(s.rows);
  int64_t windows = 0;
  for (const int64_t length : FrameWindows::windowed_lengths(lengths, kWindows.stride))
    windows += length;
  return {data({s.rows, s.width}, 1), data({windows, kWindows.size * s.width}, 2)};
}
Tensors run_frame_windows(const Tensors& in, const Packing& packing) {
  const Packing to(FrameWindows::windowed_lengths(packing.lengths(), kWindows.stride),
                   in[0].device());
  const FrameWindows::Packings packings{.from = packing, .to = to};
  at::Tensor y = FrameWindows::forward(in[0], packings, kWindows);
  return {y, FrameWindows::backward(in[1], packings, kWindows)};
}
Tensors reference_frame_windows(const Tensors& in, const Packing& packing) {
  const at::Tensor x = leaf(in[0]);
  Tensors parts;
  for (const at::Tensor& utterance : x.split_with_sizes(packing.lengths())) {
    const at::Tensor zero = at::zeros({1, x.size(1)}, x.options());
    const at::Tensor padded = at::cat({zero, utterance, zero});
    const at::Tensor windows = padded.unfold(0, kWindows.size, kWindows.stride);  // [M, D, W]
    parts.push_back(windows.transpose(1, 2).reshape({windows.size(0), -1}));
  }
  const at::Tensor y = at::cat(parts);
  y.backward(in[1]);
  return {y.detach(), x.grad()};
}

// --- positions: inputs x, dy, a table

constexpr int64_t kPositions = 400;

std::vector<Input> position_inputs(const Shape& s) {
  return {data({s.rows, s.width}, 1), data({s.rows, s.width}, 2), data({kPositions, s.width}, 3)};
}
at::Tensor places_of(const Packing& packing) {
  Tensors parts;
  for (const int64_t length : packing.lengths()) parts.push_back(at::arange(length, at::kLong));
  return at::cat(parts);
}
Tensors run_position_add(const Tensors& in, const Packing& packing) {
  at::Tensor y = copy_of(in[0]);
  PositionAdd::accumulate(y, in[2], packing);
  at::Tensor grad_table = float_zeros(in[2].sizes(), in[2]);
  PositionAdd::backward(in[1], packing, grad_table);
  return {y, grad_table};
}
Tensors reference_position_add(const Tensors& in, const Packing& packing) {
  const at::Tensor table = leaf(in[2]);
  const at::Tensor y = in[0] + table.index_select(0, places_of(packing));
  y.backward(in[1]);
  return {y.detach(), table.grad()};
}

std::vector<Input> sinusoid_inputs(const Shape& s) {
  return {data({s.rows, 2 * s.width}, 1)};
}
Tensors run_sinusoid_add(const Tensors& in, const Packing& packing) {
  at::Tensor y = copy_of(in[0]);
  SinusoidAdd::accumulate(y, packing);
  return {y};
}
Tensors reference_sinusoid_add(const Tensors& in, const Packing& packing) {
  const int64_t width = in[0].size(1);
  const at::Tensor index = places_of(packing).to(at::kDouble).unsqueeze(1);
  const at::Tensor exponent = at::arange(0, width, 2, at::kDouble) / static_cast<double>(width);
  const at::Tensor angle = index / at::pow(10'000.0, exponent);
  return {in[0] + at::stack({angle.sin(), angle.cos()}, 2).reshape({-1, width})};
}

// The width is even; the input only has it, and a type and a device.
std::vector<Input> relative_sinusoid_inputs(const Shape& s) {
  return {data({1, 2 * s.width}, 1)};
}
Tensors run_relative_sinusoids(const Tensors& in, const Packing& packing) {
  return {RelativeSinusoids::forward(packing, in[0].size(1), in[0].options())};
}
// As ParakeetEncoderRelPositionalEncoding of transformers.
Tensors reference_relative_sinusoids(const Tensors& in, const Packing& packing) {
  const int64_t width = in[0].size(1), longest = packing.max_length();
  const at::Tensor distance = at::arange(longest - 1, -longest, -1, at::kDouble).unsqueeze(1);
  const at::Tensor exponent = at::arange(0, width, 2, at::kDouble) / static_cast<double>(width);
  const at::Tensor angle = distance / at::pow(10'000.0, exponent);
  return {at::stack({angle.sin(), angle.cos()}, 2).reshape({-1, width})};
}

// --- CTC: inputs logits; results losses and the gradient of their weighted sum

constexpr int64_t kBlank = 1;

std::vector<Input> logits_inputs(const Shape& s) {
  Input logits = data({s.rows, s.width}, 1);
  logits.values = logits.values * 3.0;
  return {logits};
}

// A label in every second frame, repeats among them; one utterance in three has too many.
std::vector<std::vector<int32_t>> labels_for(const Packing& packing, int64_t vocabulary) {
  std::vector<std::vector<int32_t>> labels;
  for (const int64_t frames : packing.lengths()) {
    const bool too_many = labels.size() % 3 == 2;
    labels.emplace_back();
    for (int64_t i = 0; i < (too_many ? frames + 1 : frames / 2); ++i) {
      const int64_t other = i * i / 2 % (vocabulary - 1);  // of all but the blank
      labels.back().push_back(static_cast<int32_t>(other < kBlank ? other : other + 1));
    }
  }
  return labels;
}

std::vector<float> weights_for(const Packing& packing) {
  std::vector<float> weights;
  for (int64_t u = 0; u < packing.num_utterances(); ++u)
    weights.push_back(1.0f / static_cast<float>(1 + u));
  return weights;
}

Tensors run_ctc(const Tensors& in, const Packing& packing) {
  const Labels labels(labels_for(packing, in[0].size(1)), in[0].device());
  const Ctc::Targets targets{.packing = packing, .labels = labels, .blank = kBlank};
  at::Tensor gradient = copy_of(in[0]);
  const Ctc::Result evaluated = Ctc::evaluate(in[0], targets);
  const Ctc::Result result = Ctc::forward(gradient, targets, weights_for(packing));
  return {evaluated.loss, result.loss, gradient};
}
Tensors reference_ctc(const Tensors& in, const Packing& packing) {
  const at::Tensor logits = leaf(in[0]);
  const std::vector<std::vector<int32_t>> labels = labels_for(packing, logits.size(1));
  const std::vector<at::Tensor> utterances = logits.split_with_sizes(packing.lengths());
  Tensors losses;
  for (size_t u = 0; u < utterances.size(); ++u) {
    const at::Tensor log_probabilities = at::log_softmax(utterances[u], 1).unsqueeze(1);
    const at::Tensor targets = at::tensor(labels[u], at::kLong).unsqueeze(0);
    losses.push_back(at::ctc_loss(log_probabilities, targets, {packing.lengths()[u]},
                                  {targets.size(1)}, kBlank, at::Reduction::None,
                                  /*zero_infinity=*/true));
  }
  const at::Tensor loss = at::cat(losses);
  loss.backward(at::tensor(weights_for(packing), at::kDouble));
  return {loss.detach(), loss.detach(), logits.grad()};
}

// What was decoded, as one tensor [N]: a label at its frame, -1 at the others.
Tensors run_ctc_greedy(const Tensors& in, const Packing& packing) {
  const auto decoded = CtcGreedy::decode(in[0], packing, kBlank);
  at::Tensor by_frame = at::empty({in[0].size(0)}, in[0].options().dtype(at::kInt));
  if (by_frame.is_meta()) return {by_frame};
  by_frame.fill_(-1);
  for (size_t u = 0; u < decoded.size(); ++u) {
    for (const CtcGreedy::Label& label : decoded[u])
      by_frame[packing.starts()[u] + label.frame] = label.label;
  }
  return {by_frame};
}
Tensors reference_ctc_greedy(const Tensors& in, const Packing& packing) {
  const at::Tensor best = in[0].argmax(1);
  at::Tensor by_frame = best.clone();
  for (int64_t row = 0; row < best.size(0); ++row) {
    const bool is_first = row == packing.starts()[static_cast<size_t>(packing.utterance_of(row))];
    const auto label = best[row].item<int64_t>();
    const bool is_repeat = !is_first && label == best[row - 1].item<int64_t>();
    if (label == kBlank || is_repeat) by_frame[row] = -1;
  }
  return {by_frame};
}

// --- cross entropy: inputs x, weight; results losses twice, dx, the weight's gradient twice over

std::vector<Input> cross_entropy_inputs(const Shape& s) {
  // Logits of about 1, two entries for each column of x.
  Input weight = data({2 * s.width, s.width}, 2);
  weight.values = weight.values / std::sqrt(static_cast<double>(s.width));
  return {data({s.rows, s.width}, 1), weight};
}

// One row in seven has none, so that the small packs are without such rows.
std::vector<std::vector<int32_t>> targets_for(const Packing& packing, int64_t vocabulary) {
  std::vector<std::vector<int32_t>> targets;
  int64_t row = 0;
  for (const int64_t length : packing.lengths()) {
    targets.emplace_back();
    for (int64_t i = 0; i < length; ++i, ++row) {
      const auto entry = static_cast<int32_t>(row * row % vocabulary);
      targets.back().push_back(row % 7 == 5 ? CrossEntropy::kNoTarget : entry);
    }
  }
  return targets;
}

constexpr double kSmoothing = 0.1;

template <CrossEntropy::Variant kVariant>
Tensors run_cross_entropy(const Tensors& in, const Packing& packing) {
  const Labels targets(targets_for(packing, in[1].size(0)), in[0].device());
  const CrossEntropy::Inputs inputs{
      .x = in[0], .weight = in[1], .packing = packing, .targets = targets};
  // Chunks as small as they can be.
  const CrossEntropy::Options options{
      .smoothing = kSmoothing, .chunk_bytes = 0, .variant = kVariant};
  at::Tensor grad_weight = float_zeros(in[1].sizes(), in[1]);
  const at::Tensor evaluated = CrossEntropy::evaluate(inputs, options);
  const std::vector<float> weights = weights_for(packing);
  CrossEntropy::forward(inputs, weights, &grad_weight, options);
  const CrossEntropy::Result result = CrossEntropy::forward(inputs, weights, &grad_weight, options);
  return {evaluated, result.loss, result.dx, grad_weight};
}
Tensors reference_cross_entropy(const Tensors& in, const Packing& packing) {
  const at::Tensor x = leaf(in[0]), weight = leaf(in[1]);
  std::vector<int64_t> targets;
  for (const std::vector<int32_t>& of_utterance : targets_for(packing, weight.size(0)))
    targets.insert(targets.end(), of_utterance.begin(), of_utterance.end());
  const at::Tensor of_rows = at::cross_entropy_loss(
      at::matmul(x, weight.t()), at::tensor(targets, at::kLong), /*weight=*/{}, at::Reduction::None,
      CrossEntropy::kNoTarget, kSmoothing);
  Tensors losses;
  for (const at::Tensor& rows : of_rows.split_with_sizes(packing.lengths()))
    losses.push_back(rows.sum());
  const at::Tensor loss = at::stack(losses);
  loss.backward(at::tensor(weights_for(packing), at::kDouble));
  return {loss.detach(), loss.detach(), x.grad(), 2.0 * weight.grad()};
}

}  // namespace

std::vector<KernelCase> pack_kernel_cases() {
  return {
      {"Attention", true, attention_inputs, run_attention<Attention::Variant::kTiled>,
       reference_attention},
      {"AttentionPlain", true, attention_inputs, run_attention<Attention::Variant::kPlain>,
       reference_attention},
      {"AttentionRelative", true, attention_relative_inputs, run_attention_relative,
       reference_attention_relative},
      {"CrossAttention", true, cross_attention_inputs, run_cross_attention,
       reference_cross_attention},
      {"RowAttention", true, row_attention_inputs, run_row_attention, reference_row_attention},
      {"FrameWindows", true, windows_inputs, run_frame_windows, reference_frame_windows},
      {"PositionAdd", true, position_inputs, run_position_add, reference_position_add},
      {"SinusoidAdd", true, sinusoid_inputs, run_sinusoid_add, reference_sinusoid_add},
      {"RelativeSinusoids", true, relative_sinusoid_inputs, run_relative_sinusoids,
       reference_relative_sinusoids},
      {"Ctc", true, logits_inputs, run_ctc, reference_ctc},
      {"CtcGreedy", true, logits_inputs, run_ctc_greedy, reference_ctc_greedy},
      {"CrossEntropy", true, cross_entropy_inputs,
       run_cross_entropy<CrossEntropy::Variant::kChunked>, reference_cross_entropy},
      {"CrossEntropyWhole", true, cross_entropy_inputs,
       run_cross_entropy<CrossEntropy::Variant::kWhole>, reference_cross_entropy},
  };
}

}  // namespace sotto::test
