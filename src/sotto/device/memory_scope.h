// Scopes that declare the purpose and the moment of the allocations inside them:
//
//   MomentScope moment({.phase = Phase::kForward, .micro_batch = 2, .layer = 7});
//   CategoryScope category(Category::kWorkspace);
//
// The arena attaches both to every block. Scopes belong to their thread; a step runs on one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sotto::device {

enum class Category { kWeights, kGradients, kOptimizer, kActivations, kWorkspace, kData };
inline constexpr int kNumCategories = 6;

std::string_view name_of(Category category);

enum class Phase { kSetUp, kForward, kBackward, kUpdate };

struct Moment {
  Phase phase = Phase::kSetUp;
  int64_t micro_batch = -1;  // -1: outside micro-batches
  int64_t layer = -1;        // -1: outside layers

  // Example: "backward of layer 7, micro-batch 2"
  std::string to_string() const;

  friend bool operator==(const Moment&, const Moment&) = default;
};

// Returns the category of this thread's allocations; activations if no scope is active.
Category current_category();
Moment current_moment();

class CategoryScope {
 public:
  explicit CategoryScope(Category category);
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  Category outer_;
};

class MomentScope {
 public:
  explicit MomentScope(const Moment& moment);
  ~MomentScope();
  MomentScope(const MomentScope&) = delete;
  MomentScope& operator=(const MomentScope&) = delete;

 private:
  Moment outer_;
};

}  // namespace sotto::device
