// A source of items that are already in memory.
#pragma once

#include <utility>

#include "sotto/data/batch/source.h"

namespace sotto::data {

class ExampleList : public Source {
 public:
  // `lengths`: the lengths that the sampler uses; empty if they are not needed.
  explicit ExampleList(std::vector<Example> examples, std::vector<float> lengths = {})
      : examples_(std::move(examples)), lengths_(std::move(lengths)) {}

  const std::vector<Example>& examples() const { return examples_; }

  std::string name() const override { return "memory"; }
  std::string where(int64_t utterance) const override { return std::to_string(utterance); }
  uint64_t fingerprint() const override { return 0; }
  int64_t num_items() const override { return std::ssize(examples_); }
  int64_t utterance_at(int64_t index) const override { return at(index).utterance; }
  int64_t num_skipped() const override { return 0; }
  std::vector<float> lengths() const override { return lengths_; }
  ExampleSize size_of(int64_t index) const override { return data::size_of(at(index)); }
  int64_t bytes_per_row() const override { return 0; }
  Example dry_example(const ExampleSize& size) const override {
    if (is_text(examples_.front())) return make_dry_text(size.rows, size.segments);
    return make_dry_example(size.rows, examples_.front().feature_dim, size.labels);
  }
  Example dry_at(int64_t index) const override { return at(index); }
  std::variant<Example, SkippedUtterance> load(int64_t index, int64_t) const override {
    return at(index);
  }

 private:
  const Example& at(int64_t index) const { return examples_[static_cast<size_t>(index)]; }

  std::vector<Example> examples_;
  std::vector<float> lengths_;
};

}  // namespace sotto::data
