#include "sotto/device/target.h"

namespace sotto::device {

namespace {

// Made when a thread first asks: what the CPU has is read then.
Target& target_now() {
  thread_local Target target;
  return target;
}

}  // namespace

const Target& current_target() {
  return target_now();
}

TargetScope::TargetScope(const Target& target) : outer_(target_now()) {
  target_now() = target;
}

TargetScope::~TargetScope() {
  target_now() = outer_;
}

}  // namespace sotto::device
