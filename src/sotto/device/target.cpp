#include "sotto/device/target.h"

namespace sotto::device {

namespace {

// Created on first use in each thread, which reads the CPU's features.
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
