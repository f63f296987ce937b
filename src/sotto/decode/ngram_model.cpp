#include "sotto/decode/ngram_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::decode {

namespace {

using data::FirstWord;
using data::parse_number;
using data::split_first_word;
using data::TextLines;

constexpr std::string_view kBegin = "<s>";
constexpr std::string_view kEnd = "</s>";
constexpr std::string_view kUnknownWord = "<unk>";
// Log probability of an unknown word, where the model has no <unk>.
constexpr double kLog10OfNothing = -10.0;

// Parses a number in the range of a float: larger ones would become infinite, and sums of those
// NaN.
std::optional<double> parse_log10(std::string_view text) {
  const std::optional<double> number = parse_number(text);
  return number && std::abs(*number) <= std::numeric_limits<float>::max() ? number : std::nullopt;
}

}  // namespace

// Reads the file in one pass, section by section.
class ArpaReader {
 public:
  ArpaReader(const std::filesystem::path& path, const std::function<void(int64_t)>& progress)
      : path_(path), progress_(progress), lines_(path, "a language model in ARPA format") {}

  NgramModel read() {
    read_counts();
    for (int64_t length = 1; length <= std::ssize(counts_); ++length) read_section(length);
    const std::string_view line = next_line("\\end\\");
    if (line != "\\end\\") refuse(fmt::format("'{}'", line.substr(0, 60)), "\\end\\");
    return std::move(model_);
  }

 private:
  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const {
    throw DataError(
        {.attempted = fmt::format("reading the language model {}", path_.string()),
         .found = fmt::format("line {}: {}", lines_.number(), found),
         .expected = expected,
         .hint = "A binary file of KenLM is not read: give the ARPA file that it was made of."});
  }

  // Returns the next line that is not blank.
  std::string_view next_line(const std::string& expected) {
    while (const std::optional<std::string_view> line = lines_.next()) {
      const std::string_view text = trimmed(*line);
      if (!text.empty()) return text;
    }
    refuse("the end of the file", expected);
  }

  void read_counts() {
    // Text before it is a comment.
    while (next_line("\\data\\") != "\\data\\") {
    }
    while (true) {
      const std::string_view line = next_line("ngram 1=N");
      if (line.front() == '\\') {
        header_ = line;
        break;
      }
      const std::string prefix = fmt::format("ngram {}=", counts_.size() + 1);
      const std::optional<double> count =
          line.starts_with(prefix) ? parse_number(line.substr(prefix.size())) : std::nullopt;
      if (!count || *count < 0.0 || *count > 4e9 || std::floor(*count) != *count)
        refuse(fmt::format("'{}'", line.substr(0, 60)), prefix + "N");
      counts_.push_back(static_cast<int64_t>(*count));
    }
    if (counts_.empty() || std::ssize(counts_) > NgramModel::kMaxOrder) {
      refuse(fmt::format("n-grams of {} lengths", counts_.size()),
             fmt::format("1 to {}", NgramModel::kMaxOrder));
    }
  }

  void read_section(int64_t length) {
    const std::string expected = fmt::format("\\{}-grams:", length);
    const std::string_view line = length == 1 ? header_ : next_line(expected);
    if (line != expected) refuse(fmt::format("'{}'", line.substr(0, 60)), expected);
    NgramModel::Order& order = model_.orders_.emplace_back();
    const int64_t count = counts_[static_cast<size_t>(length - 1)];
    for (int64_t i = 0; i < count; ++i) {
      read_ngram(length, order);
      if (progress_ && i % 65536 == 0) progress_(total_ - std::ssize(lines_.rest()));
    }
    sort(order);
  }

  void read_ngram(int64_t length, NgramModel::Order& order) {
    std::string_view rest = next_line(fmt::format("an n-gram of {} words", length));
    const auto take = [&] {
      const FirstWord first = split_first_word(rest);
      rest = first.rest;
      return first.word;
    };
    const std::optional<double> probability = parse_log10(take());
    if (!probability || *probability > 0.0)
      refuse("no logarithm of a probability", "a number that is not above 0, words, a number");
    std::array<uint32_t, NgramModel::kMaxOrder> words = {};
    for (int64_t i = 0; i < length; ++i) {
      const std::string_view word = take();
      if (word.empty()) refuse(fmt::format("{} words", i), fmt::format("{}", length));
      words[static_cast<size_t>(i)] = number_of(word, length);
    }
    std::optional<double> backoff = 0.0;
    if (!rest.empty()) backoff = parse_log10(rest);
    if (!backoff) refuse(fmt::format("'{}' after the words", rest.substr(0, 60)), "a number");
    order.keys.push_back(NgramModel::key_of(words.data(), length));
    order.log10_probabilities.push_back(static_cast<float>(*probability));
    if (length < std::ssize(counts_)) order.log10_backoffs.push_back(static_cast<float>(*backoff));
  }

  uint32_t number_of(std::string_view word, int64_t length) {
    const auto known = model_.numbers_.find(word);
    if (known != model_.numbers_.end()) return known->second;
    if (length > 1) refuse(fmt::format("'{}', which is no 1-gram", word), "a word among them");
    const auto number = static_cast<uint32_t>(model_.numbers_.size() + 1);
    model_.numbers_.emplace(word, number);
    return number;
  }

  void sort(NgramModel::Order& order) const {
    std::vector<size_t> indices(order.keys.size());
    std::iota(indices.begin(), indices.end(), size_t{0});
    std::ranges::sort(indices, {}, [&](size_t index) { return order.keys[index]; });
    const auto arrange = [&](auto& values) {
      if (values.empty()) return;
      auto sorted = values;
      for (size_t i = 0; i < indices.size(); ++i) sorted[i] = values[indices[i]];
      values = std::move(sorted);
    };
    arrange(order.log10_probabilities);
    arrange(order.log10_backoffs);
    arrange(order.keys);
    if (std::ranges::adjacent_find(order.keys) != order.keys.end())
      refuse("an n-gram that stands in this section twice", "each once");
  }

  std::filesystem::path path_;
  const std::function<void(int64_t)>& progress_;
  TextLines lines_;
  int64_t total_ = std::ssize(lines_.rest());
  std::string header_;
  std::vector<int64_t> counts_;
  NgramModel model_;
};

NgramModel NgramModel::read(const std::filesystem::path& path,
                            const std::function<void(int64_t)>& progress) {
  return ArpaReader(path, progress).read();
}

int64_t NgramModel::size() const {
  int64_t size = 0;
  for (const Order& order : orders_) size += std::ssize(order.keys);
  return size;
}

uint64_t NgramModel::key_of(const uint32_t* words, int64_t count) {
  uint64_t key = 0;
  for (int64_t i = 0; i < count; ++i) key = hash_combine(key, words[i]);
  return key;
}

int64_t NgramModel::find(const uint32_t* words, int64_t count) const {
  const std::vector<uint64_t>& keys = orders_[static_cast<size_t>(count - 1)].keys;
  const uint64_t key = key_of(words, count);
  const auto found = std::ranges::lower_bound(keys, key);
  return found == keys.end() || *found != key ? -1 : found - keys.begin();
}

uint32_t NgramModel::number_of(std::string_view word) const {
  const auto known = numbers_.find(word);
  if (known != numbers_.end()) return known->second;
  const auto unknown = numbers_.find(kUnknownWord);
  return unknown == numbers_.end() ? kUnknown : unknown->second;
}

NgramModel::State NgramModel::begin() const {
  State state;
  const auto begin = numbers_.find(kBegin);
  if (begin == numbers_.end() || order() == 1) return state;
  state.words[0] = begin->second;
  state.size = 1;
  return state;
}

// Uses the longest n-gram that ends in the word, and adds a backoff weight for each word of the
// state that it drops.
double NgramModel::score_number(State& state, uint32_t word) const {
  std::array<uint32_t, kMaxOrder> words = {};
  std::copy_n(state.words.begin(), state.size, words.begin());
  words[static_cast<size_t>(state.size)] = word;
  double log10_score = 0.0;
  bool is_found = false;
  for (int64_t first = 0; first <= state.size && !is_found; ++first) {
    const int64_t length = state.size - first;
    const int64_t index = find(words.data() + first, length + 1);
    is_found = index >= 0;
    if (is_found) {
      log10_score += double{
          orders_[static_cast<size_t>(length)].log10_probabilities[static_cast<size_t>(index)]};
    } else if (length > 0) {
      const int64_t context = find(words.data() + first, length);
      if (context >= 0) {
        log10_score += double{
            orders_[static_cast<size_t>(length - 1)].log10_backoffs[static_cast<size_t>(context)]};
      }
    }
  }
  if (!is_found) log10_score += kLog10OfNothing;
  const int64_t kept = std::min(state.size + 1, order() - 1);
  std::copy_n(words.begin() + (state.size + 1 - kept), kept, state.words.begin());
  std::fill(state.words.begin() + kept, state.words.end(), 0U);
  state.size = kept;
  return log10_score * std::numbers::ln10;
}

double NgramModel::score(State& state, std::string_view word) const {
  return score_number(state, number_of(word));
}

double NgramModel::finish(const State& state) const {
  State last = state;
  const auto end = numbers_.find(kEnd);
  return end == numbers_.end() ? 0.0 : score_number(last, end->second);
}

}  // namespace sotto::decode
