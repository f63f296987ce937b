#include "sotto/decode/transcript.h"

#include <algorithm>
#include <utility>

#include "sotto/core/utf8_repair.h"
#include "sotto/core/words.h"
#include "sotto/kernels/loss/ctc_greedy.h"

namespace sotto::decode {

namespace {

using kernels::CtcGreedy;

// Same as CtcGreedy, but on the host: tensors on the device would need arena memory, of which a
// long recording may leave too little.
std::vector<CtcGreedy::Label> most_likely_labels(std::span<const float> logits,
                                                 const data::Tokenizer& tokenizer) {
  const auto width = static_cast<size_t>(tokenizer.size());
  std::vector<CtcGreedy::Label> labels;
  int32_t last = tokenizer.blank();
  for (size_t frame = 0; frame < logits.size() / width; ++frame) {
    const auto of_frame = logits.subspan(frame * width, width);
    const auto label = static_cast<int32_t>(std::ranges::max_element(of_frame) - of_frame.begin());
    if (label != last && label != tokenizer.blank())
      labels.push_back({.label = label, .frame = static_cast<int64_t>(frame)});
    last = label;
  }
  return labels;
}

// Words of labels that come one by one.
class GrowingWords {
 public:
  explicit GrowingWords(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void add(int32_t label, const TokenTime& time) {
    std::string piece = tokenizer_.piece(label);
    if (piece.starts_with(' ')) {
      is_new_ = true;
      piece.erase(0, 1);
    }
    if (piece.empty()) return;
    if (is_new_) words_.push_back({.start_s = time.start_s});
    is_new_ = false;
    words_.back().text += piece;
    words_.back().end_s = time.end_s;
  }

  std::vector<Transcript::Word> take() {
    // Labels of a byte-level tokenizer may be parts of characters.
    for (Transcript::Word& word : words_) word.text = repaired_utf8(word.text);
    return std::move(words_);
  }

 private:
  const data::Tokenizer& tokenizer_;
  std::vector<Transcript::Word> words_;
  bool is_new_ = true;
};

}  // namespace

Labels labels_of(std::span<const float> logits, const data::Tokenizer& tokenizer,
                 const BeamSearch* beam) {
  return beam != nullptr ? beam->decode(logits).front().labels
                         : most_likely_labels(logits, tokenizer);
}

Transcript make_transcript(std::span<const CtcGreedy::Label> labels, const Extent& extent,
                           const data::Tokenizer& tokenizer) {
  Transcript transcript{.text = text_of(labels, tokenizer), .seconds = extent.seconds};
  const double frame_s = extent.seconds / std::max(1.0, static_cast<double>(extent.num_frames));
  GrowingWords words(tokenizer);
  for (const CtcGreedy::Label& label : labels) {
    const double start_s = static_cast<double>(label.frame) * frame_s;
    words.add(label.label,
              {.start_s = start_s,
               .end_s = std::min(start_s + static_cast<double>(label.num_frames) * frame_s,
                                 extent.seconds)});
  }
  transcript.words = words.take();
  return transcript;
}

Transcript make_transcript(std::span<const SegmentTokens> segments, double seconds,
                           const data::Tokenizer& tokenizer, int32_t text_end) {
  Transcript transcript{.seconds = seconds};
  for (const SegmentTokens& segment : segments) {
    std::vector<int32_t> text;
    GrowingWords words(tokenizer);
    for (size_t i = 0; i < segment.tokens.size(); ++i) {
      if (segment.tokens[i] >= text_end) continue;
      text.push_back(segment.tokens[i]);
      if (segment.times.empty()) continue;
      words.add(segment.tokens[i], {.start_s = std::min(segment.times[i].start_s, seconds),
                                    .end_s = std::min(segment.times[i].end_s, seconds)});
    }
    const std::string trimmed_text(trimmed(tokenizer.decode(text)));
    if (trimmed_text.empty()) continue;
    const size_t first = transcript.words.size();
    for (Transcript::Word& word : words.take()) transcript.words.push_back(std::move(word));
    transcript.text += (transcript.text.empty() ? "" : " ") + trimmed_text;
    transcript.segments.push_back({.text = trimmed_text,
                                   .start_s = std::min(segment.start_s, seconds),
                                   .end_s = std::min(segment.end_s, seconds),
                                   .first_word = first,
                                   .end_word = transcript.words.size()});
  }
  return transcript;
}

std::vector<Transcript::Segment> segments_of(const Transcript& transcript) {
  constexpr double kPauseS = 1.0;
  if (!transcript.segments.empty()) return transcript.segments;
  const std::vector<Transcript::Word>& words = transcript.words;
  std::vector<Transcript::Segment> segments;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool is_new = i == 0 || words[i].start_s - words[i - 1].end_s >= kPauseS;
    if (is_new) segments.push_back({.start_s = words[i].start_s, .first_word = i});
    Transcript::Segment& segment = segments.back();
    segment.text += (is_new ? "" : " ") + words[i].text;
    segment.end_s = words[i].end_s;
    segment.end_word = i + 1;
  }
  return segments;
}

}  // namespace sotto::decode
