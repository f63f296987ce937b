#include "sotto/decode/transducer_search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <deque>
#include <span>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/decode/transducer_beam.h"

namespace sotto::decode {

namespace {

using models::LatticeScorer;
using Append = LatticeScorer::Append;
using Node = LatticeScorer::Node;

int64_t num_entries(const LatticeScorer& scorer, const at::Tensor& logits) {
  return logits.size(1) - std::ssize(scorer.durations());
}

at::Tensor on_host(const at::Tensor& values) {
  return values.is_meta() ? values : values.cpu();
}

// Where a greedy search is in an utterance.
struct Position {
  int64_t frame = 0;
  // Labels at this frame so far.
  int64_t num_symbols = 0;
  int64_t memory = 0;
};

// Moves on by what was found at a node. `duration`: the frames that it takes; without durations a
// blank takes one.
void advance(Position& position, bool is_blank, int64_t duration, int64_t max_symbols) {
  if (!is_blank) ++position.num_symbols;
  // A blank that stays would be found there again.
  if (duration == 0 && (is_blank || position.num_symbols == max_symbols)) duration = 1;
  if (duration > 0) position.num_symbols = 0;
  position.frame += duration;
}

// The likeliest entry and duration of each node, int64 [H] on the host.
struct Likeliest {
  at::Tensor entries;
  at::Tensor durations;  // undefined without durations

  Likeliest(const at::Tensor& logits, int64_t vocabulary) {
    entries = on_host(logits.narrow(1, 0, vocabulary).argmax(1));
    const int64_t count = logits.size(1) - vocabulary;
    if (count > 0) durations = on_host(logits.narrow(1, vocabulary, count).argmax(1));
  }
};

std::vector<TransducerHypothesis> search_greedily(LatticeScorer& scorer, int64_t max_symbols) {
  scorer.begin(scorer.size() + 1);
  std::vector<TransducerHypothesis> found(static_cast<size_t>(scorer.size()));
  std::vector<Position> positions(found.size());
  while (true) {
    std::vector<Node> nodes;
    for (size_t u = 0; u < found.size(); ++u)
      if (positions[u].frame < scorer.num_frames()[u])
        nodes.push_back({.utterance = static_cast<int64_t>(u),
                         .frame = positions[u].frame,
                         .memory = positions[u].memory});
    if (nodes.empty()) return found;
    const at::Tensor logits = scorer.score(nodes);  // [H, V + D]
    const Likeliest likeliest(logits, num_entries(scorer, logits));
    std::vector<Append> appended;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto u = static_cast<size_t>(nodes[i].utterance);
      const auto entry = static_cast<int32_t>(likeliest.entries.const_data_ptr<int64_t>()[i]);
      const bool is_blank = entry == scorer.blank();
      int64_t duration = is_blank ? 1 : 0;
      if (likeliest.durations.defined())
        duration =
            scorer
                .durations()[static_cast<size_t>(likeliest.durations.const_data_ptr<int64_t>()[i])];
      if (!is_blank) {
        found[u].labels.push_back({.label = entry,
                                   .frame = positions[u].frame,
                                   .num_frames = std::max<int64_t>(1, duration)});
        appended.push_back({.from = nodes[i].memory, .label = entry, .to = nodes[i].utterance + 1});
        positions[u].memory = nodes[i].utterance + 1;
      }
      advance(positions[u], is_blank, duration, max_symbols);
    }
    if (!appended.empty()) scorer.append(appended);
  }
}

// Returns the log-probabilities of the nodes on the host, [H, V + D].
at::Tensor log_probabilities(LatticeScorer& scorer, std::span<const Node> nodes) {
  const at::Tensor logits = scorer.score(nodes);
  const int64_t vocabulary = num_entries(scorer, logits);
  const int64_t num_durations = logits.size(1) - vocabulary;
  const at::Tensor entries = logits.narrow(1, 0, vocabulary);
  entries.copy_(at::log_softmax(entries, 1));
  if (num_durations > 0) {
    const at::Tensor durations = logits.narrow(1, vocabulary, num_durations);
    durations.copy_(at::log_softmax(durations, 1));
  }
  return on_host(logits);
}

// Continues all hypotheses that are current at a frame by one entry; returns false where none is.
bool extend_all(LatticeScorer& scorer, std::deque<TransducerBeam>& beams) {
  std::vector<Node> nodes;
  std::vector<size_t> starts;
  for (const TransducerBeam& beam : beams) {
    starts.push_back(nodes.size());
    beam.add_nodes(nodes);
  }
  if (nodes.empty()) return false;
  starts.push_back(nodes.size());
  const at::Tensor scores = log_probabilities(scorer, nodes);
  const std::span values(scores.const_data_ptr<float>(), static_cast<size_t>(scores.numel()));
  const auto width = static_cast<size_t>(scores.size(1));
  std::vector<Append> appended;
  for (size_t i = 0; i < beams.size(); ++i) {
    beams[i].extend(values.subspan(starts[i] * width, (starts[i + 1] - starts[i]) * width));
    beams[i].add_labels(appended);
  }
  if (!appended.empty()) scorer.append(appended);
  return true;
}

std::vector<TransducerHypothesis> search_by_beam(LatticeScorer& scorer,
                                                 const TransducerSearchOptions& options) {
  scorer.begin(1 + scorer.size() * num_memories(scorer, options.width));
  std::deque<TransducerBeam> beams;
  for (int64_t u = 0; u < scorer.size(); ++u) beams.emplace_back(options, scorer, u);
  const int64_t longest = std::ranges::max(scorer.num_frames());
  for (int64_t frame = 0; frame < longest; ++frame) {
    for (TransducerBeam& beam : beams) beam.enter(frame);
    while (extend_all(scorer, beams)) {
    }
  }
  std::vector<TransducerHypothesis> found;
  for (TransducerBeam& beam : beams) found.push_back(beam.best());
  return found;
}

// The memory of a step in which every hypothesis gets a new label.
void run_dry(LatticeScorer& scorer, int64_t width) {
  const bool is_greedy = width == 1;
  const int64_t memories = is_greedy ? 1 : num_memories(scorer, width);
  const int64_t labels = is_greedy ? 1 : num_appended(scorer, width);
  std::vector<Node> nodes;
  std::vector<Append> appended;
  for (int64_t u = 0; u < scorer.size(); ++u) {
    nodes.insert(nodes.end(), static_cast<size_t>(width), Node{.utterance = u});
    for (int64_t i = 0; i < labels; ++i) appended.push_back({.to = 1 + u * memories + i});
  }
  scorer.begin(1 + scorer.size() * memories);
  if (is_greedy) {
    const at::Tensor logits = scorer.score(nodes);
    const Likeliest likeliest(logits, num_entries(scorer, logits));
    scorer.append(appended);
  } else {
    const at::Tensor scores = log_probabilities(scorer, nodes);
    scorer.append(appended);
  }
}

}  // namespace

std::vector<TransducerHypothesis> find_transducer_labels(LatticeScorer& scorer,
                                                         const TransducerSearchOptions& options) {
  SOTTO_ASSERT(options.width >= 1 && options.max_symbols >= 1, "a beam of {}, {} symbols",
               options.width, options.max_symbols);
  if (scorer.is_dry()) {
    run_dry(scorer, options.width);
    return std::vector<TransducerHypothesis>(static_cast<size_t>(scorer.size()));
  }
  return options.width == 1 ? search_greedily(scorer, options.max_symbols)
                            : search_by_beam(scorer, options);
}

}  // namespace sotto::decode
