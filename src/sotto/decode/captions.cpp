#include "sotto/decode/captions.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "sotto/core/utf8.h"
#include "sotto/core/utf8_repair.h"

namespace sotto::decode {

namespace {

constexpr size_t kMostCharacters = 42;
constexpr size_t kMostLines = 2;
constexpr double kMostS = 7.0;
constexpr double kPauseS = 1.0;

// A part of a text that stays in one line.
struct Piece {
  std::u32string text = {};
  double start_s = 0.0;
  double end_s = 0.0;
  // Whether a space comes before it in a line.
  bool is_apart = true;
  bool begins_segment = false;
};

// Whether a character would end a line or is not visible.
bool is_invisible(char32_t code) {
  return code <= U' ' || code == 0x7F || code == 0x85 || code == 0xA0 || code == 0x2028 ||
         code == 0x2029;
}

// Adds the words of a text, each with its share of the time.
void add_pieces(std::string_view text, double start_s, double end_s, std::vector<Piece>& pieces) {
  std::u32string codes = code_points_of(repaired_utf8(text));
  while (!codes.empty() && is_invisible(codes.back())) codes.pop_back();
  codes.erase(codes.begin(), std::ranges::find_if_not(codes, is_invisible));
  const double per_character = (end_s - start_s) / std::max(1.0, static_cast<double>(codes.size()));
  for (size_t at = 0; at < codes.size();) {
    if (is_invisible(codes[at])) {
      ++at;
      continue;
    }
    const bool is_apart = at == 0 || is_invisible(codes[at - 1]);
    size_t end = at + 1;
    while (end < codes.size() && end - at < kMostCharacters && !is_invisible(codes[end])) ++end;
    pieces.push_back({.text = codes.substr(at, end - at),
                      .start_s = start_s + per_character * static_cast<double>(at),
                      .end_s = start_s + per_character * static_cast<double>(end),
                      .is_apart = is_apart});
    at = end;
  }
}

std::vector<Piece> pieces_of(const Transcript& transcript) {
  std::vector<Piece> pieces;
  for (const Transcript::Segment& segment : segments_of(transcript)) {
    const size_t first = pieces.size();
    for (size_t i = segment.first_word; i < segment.end_word; ++i) {
      const Transcript::Word& word = transcript.words[i];
      add_pieces(word.text, word.start_s, word.end_s, pieces);
    }
    if (segment.first_word == segment.end_word)
      add_pieces(segment.text, segment.start_s, segment.end_s, pieces);
    if (pieces.size() > first) pieces[first].begins_segment = true;
  }
  return pieces;
}

// A caption that grows.
class Growing {
 public:
  bool is_empty() const { return lines_.empty(); }

  // Whether a piece belongs to this caption.
  bool takes(const Piece& piece) const {
    if (is_empty()) return true;
    return !piece.begins_segment && !(piece.start_s - end_s_ >= kPauseS) &&
           !(piece.end_s - start_s_ > kMostS) && (fits_line(piece) || lines_.size() < kMostLines);
  }

  void add(const Piece& piece) {
    if (is_empty()) start_s_ = piece.start_s;
    end_s_ = piece.end_s;
    if (!is_empty() && fits_line(piece)) {
      lines_.back() += (piece.is_apart ? U" " : U"") + piece.text;
    } else {
      lines_.push_back(piece.text);
    }
  }

  // Returns the caption, which begins at `earliest` or later and takes time, and becomes empty.
  Caption take(int64_t earliest) {
    Caption caption;
    caption.start_ms = std::max(milliseconds(start_s_, earliest), earliest);
    caption.end_ms =
        std::max(milliseconds(std::min(end_s_, start_s_ + kMostS), earliest), caption.start_ms + 1);
    for (const std::u32string& line : lines_) caption.lines.push_back(to_utf8(line));
    lines_.clear();
    return caption;
  }

 private:
  bool fits_line(const Piece& piece) const {
    return lines_.back().size() + piece.text.size() + (piece.is_apart ? 1 : 0) <= kMostCharacters;
  }

  // Times that are no numbers, or beyond a year, are those before them.
  static int64_t milliseconds(double seconds, int64_t otherwise) {
    constexpr double kMostSeconds = 366.0 * 86'400.0;
    return std::abs(seconds) < kMostSeconds ? std::llround(1000.0 * seconds) : otherwise;
  }

  std::vector<std::u32string> lines_;
  double start_s_ = 0.0;
  double end_s_ = 0.0;
};

}  // namespace

std::vector<Caption> make_captions(const Transcript& transcript) {
  std::vector<Caption> captions;
  Growing growing;
  const auto finish = [&] {
    if (!growing.is_empty())
      captions.push_back(growing.take(captions.empty() ? 0 : captions.back().end_ms));
  };
  for (const Piece& piece : pieces_of(transcript)) {
    if (!growing.takes(piece)) finish();
    growing.add(piece);
  }
  finish();
  return captions;
}

}  // namespace sotto::decode
