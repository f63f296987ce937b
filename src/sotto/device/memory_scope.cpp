#include "sotto/device/memory_scope.h"

#include <fmt/format.h>

#include <array>

namespace sotto::device {

namespace {

thread_local Category category_now = Category::kActivations;
thread_local Moment moment_now;

}  // namespace

std::string_view name_of(Category category) {
  constexpr std::array<std::string_view, kNumCategories> kNames = {
      "weights", "gradients", "optimizer", "activations", "workspace", "data"};
  return kNames[static_cast<size_t>(category)];
}

std::string Moment::to_string() const {
  constexpr std::array<std::string_view, 4> kPhases = {"set-up", "forward", "backward", "update"};
  std::string text(kPhases[static_cast<size_t>(phase)]);
  if (layer >= 0) text += fmt::format(" of layer {}", layer);
  if (micro_batch >= 0) text += fmt::format(", micro-batch {}", micro_batch);
  return text;
}

Category current_category() {
  return category_now;
}

Moment current_moment() {
  return moment_now;
}

CategoryScope::CategoryScope(Category category) : outer_(category_now) {
  category_now = category;
}

CategoryScope::~CategoryScope() {
  category_now = outer_;
}

MomentScope::MomentScope(const Moment& moment) : outer_(moment_now) {
  moment_now = moment;
}

MomentScope::~MomentScope() {
  moment_now = outer_;
}

}  // namespace sotto::device
