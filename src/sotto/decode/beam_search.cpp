#include "sotto/decode/beam_search.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/units.h"

namespace sotto::decode {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double add_logs(double a, double b) {
  const double largest = std::max(a, b);
  if (largest == kNever) return kNever;
  return largest + std::log1p(std::exp(std::min(a, b) - largest));
}

struct Scored {
  int32_t label;
  double log_probability;
};

}  // namespace

BeamSearch::BeamSearch(const data::Tokenizer& tokenizer, const BeamOptions& options,
                       std::shared_ptr<const NgramModel> language_model)
    : options_(options),
      words_(tokenizer, options.words, std::move(language_model)),
      blank_(tokenizer.blank()) {}

// The search of one utterance.
class BeamSearch::Search {
 public:
  explicit Search(const BeamSearch& of) : of_(of) {
    Prefix& root = prefixes_.emplace_back();
    root.blank = 0.0;
    root.num_users = 1;
    root.words = of_.words_.begin();
    beam_ = {0};
  }

  void take_frame(int64_t frame, std::span<const float> logits) {
    const std::vector<Scored> scored = entries_of(logits);
    make_room(beam_.size() * scored.size());
    reached_.clear();
    for (const size_t prefix : beam_) {
      const Prefix& now = prefixes_[prefix];
      const Paths paths{.label = now.label, .blank = now.blank, .label_last = now.label_last};
      for (const Scored& entry : scored) extend(prefix, paths, entry, frame);
    }
    for (const size_t prefix : reached_) {
      prefixes_[prefix].blank = std::exchange(prefixes_[prefix].next_blank, kNever);
      prefixes_[prefix].label_last = std::exchange(prefixes_[prefix].next_label_last, kNever);
      prefixes_[prefix].is_reached = false;
    }
    keep_best(reached_);
    for (const size_t prefix : reached_) add_user(prefix);
    for (const size_t prefix : beam_) remove_user(prefix);
    beam_ = reached_;
  }

  std::vector<Hypothesis> finish() {
    for (const size_t prefix : beam_) {
      of_.words_.finish(prefixes_[prefix].words);
    }
    keep_best(beam_);
    std::vector<Hypothesis> hypotheses;
    for (const size_t prefix : beam_)
      hypotheses.push_back({.labels = labels_of(prefix), .score = score_of(prefixes_[prefix])});
    return hypotheses;
  }

 private:
  struct Prefix {
    size_t parent = 0;
    int32_t label = -1;  // -1: the empty prefix
    int64_t frame = 0;
    // Log probabilities of its paths that end in a blank, and of those that end in its last label:
    // up to this frame, and including the next.
    double blank = kNever;
    double label_last = kNever;
    double next_blank = kNever;
    double next_label_last = kNever;
    bool is_reached = false;
    // Number of children in use, plus one where it is in the beam itself: while there are any, its
    // frame is part of a hypothesis.
    int64_t num_users = 0;
    WordScores::State words = {};
  };

  // Paths of a prefix up to a frame.
  struct Paths {
    int32_t label;
    double blank;
    double label_last;

    double any() const { return add_logs(blank, label_last); }
  };

  double score_of(const Prefix& prefix) const {
    return add_logs(prefix.blank, prefix.label_last) + prefix.words.given;
  }

  // Returns the entries of a frame that are considered; always includes the blank.
  std::vector<Scored> entries_of(std::span<const float> logits) const {
    const double largest = *std::ranges::max_element(logits);
    double total = 0.0;
    for (const float logit : logits) total += std::exp(double{logit} - largest);
    const double log_total = largest + std::log(total);
    if (!std::isfinite(log_total)) return {{.label = of_.blank_, .log_probability = 0.0}};
    std::vector<Scored> scored;
    for (int32_t label = 0; label < std::ssize(logits); ++label) {
      const double logit = double{logits[static_cast<size_t>(label)]};
      if (label == of_.blank_ || largest - logit <= of_.options_.depth)
        scored.push_back({.label = label, .log_probability = logit - log_total});
    }
    return scored;
  }

  void extend(size_t from, const Paths& paths, const Scored& entry, int64_t frame) {
    if (entry.label == of_.blank_) {
      Prefix& same = reach(from);
      same.next_blank = add_logs(same.next_blank, paths.any() + entry.log_probability);
      return;
    }
    // Repeated without a blank in between, it extends the same label.
    double longer = paths.any();
    if (entry.label == paths.label) {
      Prefix& same = reach(from);
      same.next_label_last =
          add_logs(same.next_label_last, paths.label_last + entry.log_probability);
      longer = paths.blank;
    }
    if (longer == kNever) return;
    Prefix& child = reach(child_of(from, entry.label, frame));
    child.next_label_last = add_logs(child.next_label_last, longer + entry.log_probability);
  }

  Prefix& reach(size_t prefix) {
    Prefix& reached = prefixes_[prefix];
    if (!std::exchange(reached.is_reached, true)) reached_.push_back(prefix);
    return reached;
  }

  size_t child_of(size_t parent, int32_t label, int64_t frame) {
    const auto [known, is_new] = children_.try_emplace(key_of(parent, label), prefixes_.size());
    if (!is_new) {
      // An unused one is reset, as if drop_unreachable() had removed it.
      if (prefixes_[known->second].num_users == 0) prefixes_[known->second].frame = frame;
      return known->second;
    }
    Prefix child = prefixes_[parent];
    child.parent = parent;
    child.label = label;
    child.frame = frame;
    child.blank = child.label_last = child.next_blank = child.next_label_last = kNever;
    child.is_reached = false;
    child.num_users = 0;
    of_.words_.add(child.words, label);
    prefixes_.push_back(std::move(child));
    return prefixes_.size() - 1;
  }

  // A prefix in use also uses its parent. The root always has a user, because users of the next
  // frame are added before those of the last one are removed.
  void add_user(size_t prefix) {
    while (prefixes_[prefix].num_users++ == 0) prefix = prefixes_[prefix].parent;
  }
  void remove_user(size_t prefix) {
    while (--prefixes_[prefix].num_users == 0) prefix = prefixes_[prefix].parent;
  }

  // A prefix in the tree, with its entries in the children, the beam and the reached list.
  static constexpr size_t kBytesPerPrefix =
      sizeof(Prefix) + sizeof(std::pair<uint64_t, size_t>) + 6 * sizeof(size_t);

  // Called before a frame that may add num_new prefixes.
  void make_room(size_t num_new) {
    const size_t bound = std::max(size_t{4'096}, 2 * num_reachable_);
    if (prefixes_.size() > bound) drop_unreachable();
    if (of_.options_.max_bytes == 0) return;
    const auto most = static_cast<size_t>(of_.options_.max_bytes) / kBytesPerPrefix;
    if (prefixes_.size() + num_new > most) drop_unreachable();
    if (prefixes_.size() + num_new <= most) return;
    throw OutOfMemory({.attempted = fmt::format("searching with a beam of {}", of_.options_.width),
                       .found = fmt::format("{} prefixes, and up to {} with the next frame",
                                            prefixes_.size(), prefixes_.size() + num_new),
                       .expected = fmt::format("at most {}, which take {}", most,
                                               format_bytes(of_.options_.max_bytes)),
                       .hint = "Use a smaller --beam, or a larger --memory."});
  }

  // Keeps the prefixes in the beam and their ancestors.
  void drop_unreachable() {
    constexpr size_t kDropped = std::numeric_limits<size_t>::max();
    std::vector<size_t> indices(prefixes_.size(), kDropped);
    for (size_t prefix : beam_) {
      while (indices[prefix] == kDropped) {
        indices[prefix] = 0;
        prefix = prefixes_[prefix].parent;
      }
    }
    std::deque<Prefix> kept;
    children_.clear();
    // Parents precede their children.
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == kDropped) continue;
      indices[i] = kept.size();
      Prefix& prefix = kept.emplace_back(std::move(prefixes_[i]));
      prefix.parent = indices[prefix.parent];
      if (prefix.label >= 0) children_[key_of(prefix.parent, prefix.label)] = indices[i];
    }
    for (size_t& prefix : beam_) prefix = indices[prefix];
    prefixes_ = std::move(kept);
    num_reachable_ = prefixes_.size();
  }

  static uint64_t key_of(size_t parent, int32_t label) {
    return static_cast<uint64_t>(parent) << 32 | static_cast<uint32_t>(label);
  }

  // Sorts best first; ties keep the order in which they were reached.
  void keep_best(std::vector<size_t>& prefixes) const {
    std::ranges::stable_sort(prefixes, std::greater<>(),
                             [&](size_t prefix) { return score_of(prefixes_[prefix]); });
    const auto width = static_cast<size_t>(of_.options_.width);
    if (prefixes.size() > width) prefixes.resize(width);
  }

  std::vector<kernels::CtcGreedy::Label> labels_of(size_t prefix) const {
    std::vector<kernels::CtcGreedy::Label> labels;
    for (; prefixes_[prefix].label >= 0; prefix = prefixes_[prefix].parent)
      labels.push_back({.label = prefixes_[prefix].label, .frame = prefixes_[prefix].frame});
    std::ranges::reverse(labels);
    return labels;
  }

  const BeamSearch& of_;
  // A tree of prefixes by parent index; the first is its root.
  std::deque<Prefix> prefixes_;
  // Number of prefixes after the last drop_unreachable().
  size_t num_reachable_ = 0;
  std::unordered_map<uint64_t, size_t> children_;
  std::vector<size_t> beam_;
  // Prefixes reached in the current frame.
  std::vector<size_t> reached_;
};

std::vector<BeamSearch::Hypothesis> BeamSearch::decode(std::span<const float> logits) const {
  const auto width = static_cast<size_t>(words_.num_labels());
  SOTTO_ASSERT(logits.size() % width == 0, "{} logits for {} entries", logits.size(), width);
  Search search(*this);
  for (size_t frame = 0; frame < logits.size() / width; ++frame)
    search.take_frame(static_cast<int64_t>(frame), logits.subspan(frame * width, width));
  return search.finish();
}

}  // namespace sotto::decode
