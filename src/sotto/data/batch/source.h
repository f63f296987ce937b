// What a run learns from, item by item: the utterances of a manifest, or the rows of a text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sotto/data/batch/example.h"

namespace sotto::data {

// What a file held that items are read from; of an archive or a file of features, the part of it.
struct FileHash {
  std::string path;
  // 0 where it could not be read.
  uint64_t hash = 0;

  friend bool operator==(const FileHash&, const FileHash&) = default;
};

// Items are numbered by their place among those that take part. All may be called from several
// threads.
class Source {
 public:
  virtual ~Source() = default;

  // The file that it is of.
  virtual std::string name() const = 0;
  // Of an example's `utterance`: where a user finds it, FILE:LINE.
  virtual std::string where(int64_t utterance) const = 0;
  // Other items have another one, as good as always.
  virtual uint64_t fingerprint() const = 0;

  virtual int64_t num_items() const = 0;
  // The `utterance` of the example at a place.
  virtual int64_t utterance_at(int64_t place) const = 0;
  // How many were left out, and the first of them with their reasons.
  virtual int64_t num_skipped() const = 0;
  virtual std::span<const SkippedUtterance> skipped() const { return {}; }
  // What the sampler goes by: seconds of audio, or tokens.
  virtual std::vector<float> lengths() const = 0;
  // At most: what an epoch does to an utterance may shorten it.
  virtual ExampleSize size_of(int64_t place) const = 0;
  // Of values and labels in memory, for each row of an item.
  virtual int64_t bytes_a_row() const = 0;

  // Items without values: one of a size, and the largest that the one at a place may be.
  virtual Example dry_example(const ExampleSize& size) const = 0;
  virtual Example dry_at(int64_t place) const { return dry_example(size_of(place)); }

  // Throws the DataError of the first item whose file is missing or no such file, where load()
  // would throw it; nothing is decoded.
  virtual void check_files() const {}
  // A hash of the size and the bytes of each of at most `max_files` files that items are read from,
  // chosen by a fixed seed. Not of when a file was changed: copies change that. Empty where the
  // fingerprint is of the content already.
  virtual std::vector<FileHash> hash_files(int64_t) const { return {}; }

  // As it is in an epoch. One that is broken is returned as skipped or thrown as DataError.
  virtual std::variant<Example, SkippedUtterance> load(int64_t place, int64_t epoch) const = 0;
};

}  // namespace sotto::data
