#include "sotto/decode/transcript.h"

#include <algorithm>

#include "sotto/core/utf8_repair.h"
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
  bool is_new = true;
  for (const CtcGreedy::Label& label : labels) {
    std::string piece = tokenizer.piece(label.label);
    if (piece.starts_with(' ')) {
      is_new = true;
      piece.erase(0, 1);
    }
    if (piece.empty()) continue;
    const double start_s = std::min(static_cast<double>(label.frame) * frame_s, extent.seconds);
    if (is_new) transcript.words.push_back({.start_s = start_s});
    is_new = false;
    transcript.words.back().text += piece;
    transcript.words.back().end_s =
        std::min(start_s + static_cast<double>(label.num_frames) * frame_s, extent.seconds);
  }
  // Labels of a byte-level tokenizer may be parts of characters.
  for (Transcript::Word& word : transcript.words) word.text = repaired_utf8(word.text);
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
