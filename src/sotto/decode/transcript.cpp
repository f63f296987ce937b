#include "sotto/decode/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

std::string srt_time(double seconds) {
  const auto ms = std::llround(1000.0 * seconds);
  return fmt::format("{:02}:{:02}:{:02},{:03}", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60,
                     ms % 1000);
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
    const double start_s = static_cast<double>(label.frame) * frame_s;
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

std::string to_srt(const Transcript& transcript) {
  constexpr size_t kMostWords = 10;
  constexpr double kPauseS = 1.0;
  std::string srt;
  int64_t number = 0;
  const std::vector<Transcript::Word>& words = transcript.words;
  for (size_t first = 0; first < words.size();) {
    size_t end = first + 1;
    while (end < words.size() && end - first < kMostWords &&
           words[end].start_s - words[end - 1].end_s < kPauseS)
      ++end;
    std::string text;
    for (size_t i = first; i < end; ++i) text += (i == first ? "" : " ") + words[i].text;
    srt += fmt::format("{}\n{} --> {}\n{}\n\n", ++number, srt_time(words[first].start_s),
                       srt_time(words[end - 1].end_s), text);
    first = end;
  }
  return srt;
}

}  // namespace sotto::decode
