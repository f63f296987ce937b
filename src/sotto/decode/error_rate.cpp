#include "sotto/decode/error_rate.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "sotto/core/files/text_file.h"

namespace sotto::decode {

namespace {

constexpr std::string_view kSpaces = " \t\n\r\v\f";

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t end = 0;;) {
    const size_t begin = text.find_first_not_of(kSpaces, end);
    if (begin == std::string_view::npos) return words;
    end = std::min(text.find_first_of(kSpaces, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
  }
}

// Returns the UTF-8 sequence that a text begins with; a single byte where there is none.
std::string_view first_character(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(4, text.size()); ++length) {
    if (is_utf8(text.substr(0, length))) return text.substr(0, length);
  }
  return text.substr(0, 1);
}

std::vector<std::string_view> split_characters(std::string_view text) {
  std::vector<std::string_view> characters;
  const size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
  text = text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
  while (!text.empty()) {
    characters.push_back(first_character(text));
    text.remove_prefix(characters.back().size());
  }
  return characters;
}

// Errors on the path to one cell of the edit distance table. They are stored in the cell, so that
// counting them by kind needs no full table.
struct Cell {
  int64_t insertions = 0;
  int64_t deletions = 0;
  int64_t substitutions = 0;

  int64_t distance() const { return insertions + deletions + substitutions; }
};

// The cells before one: without the last item of the reference, of the hypothesis, of both.
struct Neighbours {
  const Cell& above;
  const Cell& left;
  const Cell& diagonal;
};

// Ties between shortest paths are resolved as in rapidfuzz, which jiwer uses for alignment: a
// deletion where possible; an insertion where the cell to the left is nearer than the diagonal one;
// else a match or substitution.
Cell next_cell(const Neighbours& before, bool is_match) {
  const int64_t above = before.above.distance();
  const int64_t left = before.left.distance();
  const int64_t diagonal = before.diagonal.distance();
  const int64_t distance = std::min({above + 1, left + 1, diagonal + (is_match ? 0 : 1)});
  if (distance == above + 1) {
    Cell cell = before.above;
    ++cell.deletions;
    return cell;
  }
  if (left < diagonal) {
    Cell cell = before.left;
    ++cell.insertions;
    return cell;
  }
  Cell cell = before.diagonal;
  if (!is_match) ++cell.substitutions;
  return cell;
}

using Items = std::span<const std::string_view>;

// Returns the last cell of the table, computed row by row: a row has one cell per prefix of the
// hypothesis.
Cell align(Items reference, Items hypothesis) {
  std::vector<Cell> row(hypothesis.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j].insertions = static_cast<int64_t>(j);
  for (const std::string_view item : reference) {
    Cell diagonal = row[0];
    ++row[0].deletions;
    for (size_t j = 1; j < row.size(); ++j) {
      const Cell cell = next_cell({.above = row[j], .left = row[j - 1], .diagonal = diagonal},
                                  item == hypothesis[j - 1]);
      diagonal = std::exchange(row[j], cell);
    }
  }
  return row.back();
}

ErrorCounts count_errors(Items reference, Items hypothesis) {
  ErrorCounts counts{.reference_length = static_cast<int64_t>(reference.size())};
  // Common prefixes and suffixes need no table; rapidfuzz also removes them, and with them ties
  // could be resolved differently.
  const auto differ =
      std::mismatch(reference.begin(), reference.end(), hypothesis.begin(), hypothesis.end());
  const auto prefix = static_cast<size_t>(differ.first - reference.begin());
  reference = reference.subspan(prefix);
  hypothesis = hypothesis.subspan(prefix);
  while (!reference.empty() && !hypothesis.empty() && reference.back() == hypothesis.back()) {
    reference = reference.first(reference.size() - 1);
    hypothesis = hypothesis.first(hypothesis.size() - 1);
  }
  const Cell cell = align(reference, hypothesis);
  counts.insertions = cell.insertions;
  counts.deletions = cell.deletions;
  counts.substitutions = cell.substitutions;
  return counts;
}

}  // namespace

double ErrorCounts::rate() const {
  if (reference_length == 0) return static_cast<double>(insertions);
  return static_cast<double>(errors()) / static_cast<double>(reference_length);
}

ErrorCounts& ErrorCounts::operator+=(const ErrorCounts& other) {
  insertions += other.insertions;
  deletions += other.deletions;
  substitutions += other.substitutions;
  reference_length += other.reference_length;
  return *this;
}

ErrorCounts word_errors(std::string_view reference, std::string_view hypothesis) {
  return count_errors(split_words(reference), split_words(hypothesis));
}

ErrorCounts character_errors(std::string_view reference, std::string_view hypothesis) {
  return count_errors(split_characters(reference), split_characters(hypothesis));
}

}  // namespace sotto::decode
