#include "sotto/decode/window_labels.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace sotto::decode {

namespace {

using kernels::CtcGreedy;

// Splits labels into words. A word includes the spaces before it, as labels or as part of one.
class Words {
 public:
  explicit Words(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (int32_t label = 0; label < tokenizer.size() && !space_; ++label)
      if (label != tokenizer.blank() && tokenizer.piece(label) == " ") space_ = label;
  }

  // The label of a space between words; none where pieces begin with it.
  std::optional<int32_t> space() const { return space_; }

  bool begins_word(int32_t label) const { return tokenizer_.piece(label).starts_with(' '); }

  // Returns the end of the word that begins at `first`.
  size_t end_of(const Labels& labels, size_t first) const {
    size_t end = first;
    while (end < labels.size() && labels[end].label == space_) ++end;
    if (end < labels.size()) ++end;
    while (end < labels.size() && !begins_word(labels[end].label)) ++end;
    return end;
  }

  // Returns the frame at which the text of a word begins.
  int64_t frame_of(std::span<const CtcGreedy::Label> word) const {
    const auto first = std::ranges::find_if(
        word, [&](const CtcGreedy::Label& label) { return label.label != space_; });
    return first == word.end() ? word.front().frame : first->frame;
  }

 private:
  const data::Tokenizer& tokenizer_;
  std::optional<int32_t> space_;
};

// Appends a word whose labels are at `earliest` or later.
void append(std::span<const CtcGreedy::Label> word, int64_t shift, int64_t earliest,
            Labels& joined) {
  for (CtcGreedy::Label label : word) {
    label.frame = earliest = std::max(label.frame + shift, earliest);
    joined.push_back(label);
  }
}

}  // namespace

Labels join_windows(std::span<const WindowLabels> windows, const data::Tokenizer& tokenizer) {
  const Words words(tokenizer);
  Labels joined;
  int64_t num_frames = 0;
  for (const WindowLabels& window : windows) {
    const int64_t shift = num_frames - window.begin;
    // Windows may hear a seam differently: the first word of one begins after the last of the
    // other. Within a window a transducer emits several labels at one frame.
    int64_t gap = 1;
    for (size_t first = 0; first < window.labels.size();) {
      const size_t end = words.end_of(window.labels, first);
      const auto word = std::span(window.labels).subspan(first, end - first);
      first = end;
      const int64_t frame = words.frame_of(word);
      if (frame < window.begin || frame >= window.end) continue;
      // The first word of a window has no space before it.
      if (!joined.empty() && words.space() && !words.begins_word(word.front().label))
        append(std::vector{CtcGreedy::Label{.label = *words.space(), .frame = frame}}, shift,
               joined.back().frame + gap, joined);
      append(word, shift, joined.empty() ? 0 : joined.back().frame + gap, joined);
      gap = 0;
    }
    num_frames += window.end - window.begin;
  }
  return joined;
}

}  // namespace sotto::decode
