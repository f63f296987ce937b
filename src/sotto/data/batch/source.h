// Training data item by item: the utterances of a manifest, or the rows of a text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sotto/data/batch/example.h"

namespace sotto::data {

// Hash of a file from which items are read; for an archive or a file of features, of the part that
// is used.
struct FileHash {
  std::string path;
  // 0 if it could not be read.
  uint64_t hash = 0;

  friend bool operator==(const FileHash&, const FileHash&) = default;
};

// Items are numbered by their index among those that take part. All functions are thread-safe.
class Source {
 public:
  virtual ~Source() = default;

  // Returns the file of the source.
  virtual std::string name() const = 0;
  // Returns the location of an example's `utterance` for the user, FILE:LINE.
  virtual std::string where(int64_t utterance) const = 0;
  // Different items have a different fingerprint, with near certainty.
  virtual uint64_t fingerprint() const = 0;

  virtual int64_t num_items() const = 0;
  // Returns the `utterance` of the example at an index.
  virtual int64_t utterance_at(int64_t index) const = 0;
  // Number of skipped utterances, and the first of them with their reasons.
  virtual int64_t num_skipped() const = 0;
  virtual std::span<const SkippedUtterance> skipped() const { return {}; }
  // Returns the lengths that the sampler uses: seconds of audio, or tokens.
  virtual std::vector<float> lengths() const = 0;
  // Returns the maximum size: augmentation in an epoch may shorten an utterance.
  virtual ExampleSize size_of(int64_t index) const = 0;
  // Returns the bytes of values and labels in memory per row of an item.
  virtual int64_t bytes_per_row() const = 0;

  // Return items without values: one of a given size, and the largest possible one at an index.
  virtual Example dry_example(const ExampleSize& size) const = 0;
  virtual Example dry_at(int64_t index) const { return dry_example(size_of(index)); }

  // Throws the DataError of the first item whose file is missing or invalid, if load() would throw
  // it; decodes nothing.
  virtual void check_files() const {}
  // Returns a hash of the size and the bytes of each of at most `max_files` files from which items
  // are read, chosen by a fixed seed. The modification time is not included: copies change it.
  // Empty if the fingerprint already covers the content.
  virtual std::vector<FileHash> hash_files(int64_t) const { return {}; }

  // Loads an item as it is in an epoch. A broken item is returned as skipped or thrown as
  // DataError.
  virtual std::variant<Example, SkippedUtterance> load(int64_t index, int64_t epoch) const = 0;
};

}  // namespace sotto::data
