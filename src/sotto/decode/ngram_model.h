// A language model of words by n-grams, read from an ARPA file, as SRILM and KenLM write it. Knows
// no LibTorch.
//
//   const NgramModel model = NgramModel::read("lm.arpa");
//   NgramModel::State state = model.begin();
//   double score = 0.0;
//   for (const std::string& word : words) score += model.score(state, word);
//   score += model.finish(state);
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sotto::decode {

class NgramModel {
 public:
  static constexpr int64_t kMaxOrder = 8;

  // The words before the next one, the newest last: as many as the model looks at.
  struct State {
    std::array<uint32_t, kMaxOrder - 1> words = {};
    int64_t size = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  // `progress` hears the bytes read. Throws DataError, with the number of the line, where the file
  // is not as the format has it.
  static NgramModel read(const std::filesystem::path& path,
                         const std::function<void(int64_t)>& progress = {});

  int64_t order() const { return static_cast<int64_t>(orders_.size()); }
  // N-grams of all lengths.
  int64_t size() const;

  // Behind the beginning of a sentence.
  State begin() const;
  // The logarithm (base e) of the probability of a word behind the state, which then is behind the
  // word. A word that the model does not have counts as its <unk>, or 1e-10 where it has none.
  double score(State& state, std::string_view word) const;
  // The same of the end of the sentence.
  double finish(const State& state) const;

 private:
  friend class ArpaReader;

  // Words of a model are numbered from 1; 0 is one that it does not have.
  static constexpr uint32_t kUnknown = 0;

  // The n-grams of one length, by the hashes of their words, which are in order.
  struct Order {
    std::vector<uint64_t> keys;
    std::vector<float> log10_probabilities;
    std::vector<float> log10_backoffs;  // empty for the longest
  };

  static uint64_t key_of(const uint32_t* words, int64_t count);
  // Its place in an order; -1 where there is none.
  int64_t find(const uint32_t* words, int64_t count) const;
  double score_number(State& state, uint32_t word) const;
  uint32_t number_of(std::string_view word) const;

  struct TextHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>> numbers_;
  std::vector<Order> orders_;  // of lengths 1, 2 ...
};

}  // namespace sotto::decode
