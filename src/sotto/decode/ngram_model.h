// A word n-gram language model, read from an ARPA file as written by SRILM and KenLM. Does not
// depend on LibTorch.
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

  // The previous words, latest last: as many as the model conditions on.
  struct State {
    std::array<uint32_t, kMaxOrder - 1> words = {};
    int64_t size = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  // `progress` receives the number of bytes read. Throws DataError, with the line number, where the
  // file does not match the format.
  static NgramModel read(const std::filesystem::path& path,
                         const std::function<void(int64_t)>& progress = {});

  int64_t order() const { return static_cast<int64_t>(orders_.size()); }
  // Number of n-grams of all lengths.
  int64_t size() const;

  // Returns the state at the beginning of a sentence.
  State begin() const;
  // Returns the natural logarithm of the probability of a word after the state, and advances the
  // state. A word that is not in the model counts as its <unk>, or as 1e-10 where it has none.
  double score(State& state, std::string_view word) const;
  // Returns the natural logarithm of the probability of the end of the sentence.
  double finish(const State& state) const;

 private:
  friend class ArpaReader;

  // Words of a model are numbered from 1; 0 is an unknown word.
  static constexpr uint32_t kUnknown = 0;

  // The n-grams of one length, sorted by the hashes of their words.
  struct Order {
    std::vector<uint64_t> keys;
    std::vector<float> log10_probabilities;
    std::vector<float> log10_backoffs;  // empty for the longest n-grams
  };

  static uint64_t key_of(const uint32_t* words, int64_t count);
  // Returns the index of an n-gram in its order; -1 where there is none.
  int64_t find(const uint32_t* words, int64_t count) const;
  double score_number(State& state, uint32_t word) const;
  uint32_t number_of(std::string_view word) const;

  struct TextHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>> numbers_;
  std::vector<Order> orders_;  // for lengths 1, 2 ...
};

}  // namespace sotto::decode
