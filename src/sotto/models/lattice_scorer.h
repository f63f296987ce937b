// Scores of a transducer, node by node: the interface between a network and the search in decode/.
// It processes one micro-batch, and holds what it needs of it. H nodes, V entries with the blank, D
// durations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sotto::models {

class LatticeScorer {
 public:
  virtual ~LatticeScorer() = default;

  // Number of frames of each utterance of the micro-batch.
  const std::vector<int64_t>& num_frames() const { return num_frames_; }
  int64_t size() const { return static_cast<int64_t>(num_frames_.size()); }
  int32_t blank() const { return blank_; }
  // Frames by which each entry of the duration head advances; none: the blank advances by one, a
  // label by none.
  const std::vector<int64_t>& durations() const { return durations_; }
  // Whether it has no values, only their memory.
  virtual bool is_dry() const = 0;

  // A frame of an utterance after some labels, which a memory holds.
  struct Node {
    int64_t utterance = 0;
    int64_t frame = 0;
    int64_t memory = 0;
  };

  // The memory `to` becomes that of the labels of `from` and one more.
  struct Append {
    int64_t from = 0;
    int32_t label = 0;
    int64_t to = 0;
  };

  // Makes memories 0 to num_memories - 1. Memory 0 holds no labels, and is never overwritten.
  virtual void begin(int64_t num_memories) = 0;

  // Returns the logits [H, V + D] fp32 of what follows at each node.
  virtual at::Tensor score(std::span<const Node> nodes) = 0;

  // Each `to` appears once, and is no `from` of another.
  virtual void append(std::span<const Append> labels) = 0;

 protected:
  LatticeScorer(std::vector<int64_t> num_frames, int32_t blank, std::vector<int64_t> durations)
      : num_frames_(std::move(num_frames)), blank_(blank), durations_(std::move(durations)) {}

 private:
  std::vector<int64_t> num_frames_;
  int32_t blank_;
  std::vector<int64_t> durations_;
};

}  // namespace sotto::models
