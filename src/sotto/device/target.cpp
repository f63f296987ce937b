#include "sotto/device/target.h"

namespace sotto::device {

namespace {

thread_local Target target_now;

}  // namespace

const Target& current_target() {
  return target_now;
}

TargetScope::TargetScope(const Target& target) : outer_(target_now) {
  target_now = target;
}

TargetScope::~TargetScope() {
  target_now = outer_;
}

}  // namespace sotto::device
